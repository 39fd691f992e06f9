"""``matex doctor --network``: starts measuring ranks as ``matex run`` starts its ranks."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from matex.config import LaunchOptions, batch_job, environment_of_started
from matex.config.given import make
from matex.errors import InputError
from matex.launcher.hosts import Hosts
from matex.launcher.mpiexec import find_mpiexec
from matex.launcher.restarts import hosts_text, read_hosts
from matex.launcher.scratch import scratch_directory
from matex.network.table import WHAT_TO_SET

__all__ = ["start"]


class _Wanted(NamedTuple):
    """Ranks to be started, and hosts if the launcher needs them."""

    ranks: int
    hosts: str | None
    ulfm: bool


def start(words: Mapping[str, str], parameters: int) -> int:
    """Start ranks that measure and print results; return the exit status.

    0 exactly when the report was printed whole: mpiexec's own status proves nothing.

    Args:
        words: texts of ``--hosts`` and ``--ranks``, if given.
        parameters: number of parameters of the model that is asked about.

    Raises:
        InputError: there are no ranks on two hosts or more, or they cannot be started.
    """
    wanted = _wanted(words)
    mpiexec = find_mpiexec()
    with scratch_directory() as scratch:
        environment = environment_of_started(scratch)
        if wanted.hosts is not None:
            hosts = Hosts(mpiexec=mpiexec, environment=environment)
            if unknown := hosts.unknown(read_hosts(wanted.hosts)):
                raise InputError(
                    "--hosts must name hosts on which a program can be started. Received: "
                    f"{', '.join(unknown)}, on which none can"
                )
        rank = [sys.executable, "-m", "matex", "doctor", "--network"]
        command = mpiexec.start(
            [*rank, "--parameters", str(parameters)],
            processes=wanted.ranks,
            hosts=wanted.hosts,
            several=True,
            spread=True,
            survive=wanted.ulfm and mpiexec.survives,
        )
        try:
            with _told():
                if _printed(command, environment):
                    return 0
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
    print("matex doctor --network: the ranks ended before all was measured", file=sys.stderr)
    return 1


def _wanted(words: Mapping[str, str]) -> _Wanted:
    """Ranks to be started, by the options or the batch job.

    Raises:
        InputError: they are on fewer than two hosts.
    """
    options = make(LaunchOptions, words=words)
    job = batch_job()
    if options.hosts is not None:
        slots = read_hosts(options.hosts)
        ranks = options.ranks or sum(slots.values())
        if len(slots) < 2:
            raise InputError(f"--hosts must name two hosts or more. Received: {options.hosts}")
        first = next(iter(slots))
        if ranks <= slots[first]:
            raise InputError(
                f"-n must reach the second host: {first} takes {slots[first]}. Received: {ranks}"
            )
        return _Wanted(ranks, hosts_text(slots), options.ulfm)
    if job is None:
        raise InputError(
            "--network wants two hosts or more, as --hosts a:2,b:2 or from a batch job. "
            "Received: this host alone"
        )
    if job.nodes < 2:
        raise InputError(
            f"--network wants two hosts or more. Received: a {job.system} job with one; ask for "
            "several nodes"
        )
    ranks = options.ranks or job.ranks
    if ranks < 2:
        raise InputError(f"-n must be at least 2, for ranks on two hosts. Received: {ranks}")
    return _Wanted(ranks, job.hosts, options.ulfm)


def _printed(command: list[str], environment: Mapping[str, str]) -> bool:
    """Print the ranks' output as it comes; return whether they completed the report."""
    whole = False
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                whole |= line.rstrip("\n") == WHAT_TO_SET
                print(line, end="", flush=True)
        except BaseException:  # a signal
            process.terminate()  # mpiexec ends its ranks
            raise
    return whole


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Context in which SIGTERM ends this program like an exception, and the ranks with it."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
