"""One start of mpiexec and all processes that it starts, identified by a token."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from matex.config import JOB
from matex.errors import InputError
from matex.launcher.lines import say
from matex.launcher.mpich_segments import remove_new, segments
from matex.launcher.mpiexec import Mpiexec, MpiexecKind
from matex.launcher.rank_processes import processes_with, ranks_below

__all__ = ["Job"]

_GRACE_S = 5.0
_GONE_S = 30.0  # after SIGKILL


class Job:
    """Processes that carry one token in their environment, including mpiexec.

    mpiexec gets a session of its own: a Ctrl-C at the terminal is the supervisor's to answer. So is
    SIGTERM, which Open MPI's does not hear: a batch system sends it to all processes of a job, and
    mpiexec would end the ranks half a second later, while they save.

    Args:
        mpiexec: the program that *command* calls.
        environment: variables of all processes, beside the token.
        quiet: whether their output is discarded.
        said: open file that their standard output goes to; none by default.
        files: open files that mpiexec inherits.

    Raises:
        InputError: the system refuses to start *command*.
    """

    def __init__(
        self,
        mpiexec: Mpiexec,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        quiet: bool = False,
        said: BinaryIO | None = None,
        files: Sequence[int] = (),
    ) -> None:
        self._end = mpiexec.end
        self._segments = segments() if mpiexec.kind is MpiexecKind.HYDRA else None
        self._token = f"{JOB}={uuid.uuid4().hex}"
        name, _, value = self._token.partition("=")
        with _blocked([signal.SIGTERM] if mpiexec.shielded else []):
            try:
                self._process = subprocess.Popen(
                    command,
                    env={**environment, name: value},
                    stdin=subprocess.DEVNULL,
                    stdout=said if said is not None else subprocess.DEVNULL if quiet else None,
                    stderr=subprocess.DEVNULL if quiet else None,
                    start_new_session=True,
                    pass_fds=files,
                )
            except OSError as error:  # such as hosts whose names are longer than an argument may be
                longest = max(map(len, command))
                raise InputError(
                    f"{mpiexec.path} cannot be started: {error.strerror}. "
                    f"Received: arguments of up to {longest} characters"
                ) from None

    def wait(self, timeout_s: float) -> bool:
        """Whether mpiexec has ended, waiting for it at most *timeout_s* seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.poll() is not None

    def is_left(self) -> bool:
        """Whether mpiexec is the only living process of the job on this host."""
        return self._processes() == [self._process.pid]

    def ranks(self) -> dict[int, int]:
        """Process of each rank on this host that can be seen now."""
        return ranks_below(self._process.pid)

    @property
    def status(self) -> int | None:
        """Exit status of mpiexec, which proves little; None while it runs."""
        return self._process.poll()

    def tell(self, number: signal.Signals) -> None:
        """Send signal *number* to mpiexec, which forwards it to the ranks on all hosts."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def end_soon(self) -> None:
        """Make mpiexec end the ranks and itself."""
        self.tell(self._end)

    def end(self, *, ask: bool = True) -> None:
        """End mpiexec and the remaining processes of the job on this host.

        On other hosts its daemons end, with their ranks, when they lose it.

        Args:
            ask: whether mpiexec ends the ranks, which takes a second. It wakes stopped ranks, which
                would go on meanwhile.
        """
        if ask:
            self.end_soon()
        if not self.wait(_GRACE_S if ask else 0):
            self._process.kill()
        limit = time.monotonic() + _GONE_S
        while remains := self._processes():
            if time.monotonic() > limit:
                named = ", ".join(map(str, remains))
                say(
                    f"process {named} does not end though it was killed (a device or file system "
                    "that does not answer?), and is left alone"
                )
                break
            for pid in remains:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)  # until the kernel has taken them away
        self._process.poll()
        if self._segments is not None:
            remove_new(self._segments)

    def _processes(self) -> list[int]:
        return processes_with(self._token)


@contextlib.contextmanager
def _blocked(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Context in which processes that this thread starts do not receive these signals."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
