"""Small programs on several ranks: started, bounded in time, judged by what each rank wrote.

A program is a function of a test module. Its source alone is what the ranks run, with the names
of ``_PREAMBLE`` in scope, so that ranks start quickly. mpiexec's exit status is no evidence: a
rank says what it has reached with :func:`mark`, and a clean end leaves the mark ``end``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import inspect
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ft
from ci.jobs import ROOT, on_ranks
from ci.patience import patience

# Every process of a job carries this, whoever its parent is by then.
_SCRATCH = "FAULT_TEST_SCRATCH"
_STACKS_AFTER_S = "FAULT_TEST_STACKS_AFTER_S"

_BREAKPOINT = 0xCC  # of x86-64; nobody debugs the rank, so it dies of it

_PREAMBLE = """\
import contextlib, os, signal, sys, threading
import numpy as np
import ft
from tests.fault.ranks import (
    Watched, add, begin, end_by, end_on_entering, mark, once_in_call, seen, share, wait_for
)
"""

# ---------------------------------------------------------------- beside the ranks


@dataclass(frozen=True, kw_only=True)
class Job:
    """The results of a job: its marks, all output, and its duration."""

    marks: dict[str, dict[int, Any]]
    output: str
    seconds: float

    def __getitem__(self, name: str) -> dict[int, Any]:
        """Content of the marks of one name, by rank."""
        return self.marks.get(name, {})

    @property
    def ended(self) -> set[int]:
        """The ranks that came to a clean end, MPI finalised."""
        return set(self["end"])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one job, whose short name suits the sockets that MPI keeps below it."""
    path = Path(tempfile.mkdtemp(prefix="mx-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def execute(command: list[str], *, directory: Path, timeout_s: float, **environment: str) -> str:
    """Run *command* with *directory* as its TMPDIR; its output. Nothing of it is left running.

    Raises:
        AssertionError: it had not ended after *timeout_s* of a quiet machine, or left processes
            behind.
    """
    log = directory / "output"
    limit_s = patience(timeout_s)
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(directory),
        _SCRATCH: str(directory),
        _STACKS_AFTER_S: str(0.8 * limit_s),
        **environment,
    }
    with log.open("wb") as file:
        launcher = subprocess.Popen(
            command, cwd=directory, env=variables,
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        hung = False
        try:
            launcher.wait(limit_s)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            left = _end_all(launcher, directory)
    output = log.read_text(errors="replace")
    assert not hung, f"no end within {limit_s:g} s; output:\n{output}"
    assert not left, f"processes left behind: {left}; output:\n{output}"
    return output


def run(
    program: Callable[..., None],
    *,
    ranks: int,
    timeout_s: float = 40,
    ulfm: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
    **arguments: Any,
) -> Job:
    """Run *program(**arguments)* on every rank, to the end of all of them.

    Raises:
        AssertionError: it did not end in time, or left processes or shared memory behind.
    """
    with scratch() as directory:
        (directory / "marks").mkdir()
        script = directory / "program.py"
        script.write_text(
            f"{_PREAMBLE}\n{textwrap.dedent(inspect.getsource(program))}\n"
            f"{program.__name__}(**{arguments!r})\n"
        )
        started = time.monotonic()
        output = execute(
            [*on_ranks(ranks, ulfm=ulfm), sys.executable, str(script)],
            directory=directory,
            timeout_s=timeout_s,
            **environment,
        )
        seconds = time.monotonic() - started
        marks = _read_marks(directory / "marks")
    segments = {path for start in marks.get("start", {}).values() for path in start["segments"]}
    left = sorted(path for path in segments if Path(path).exists())
    assert not left, f"shared memory left behind: {left}; output:\n{output}"
    return Job(marks=marks, output=output, seconds=seconds)


def _read_marks(directory: Path) -> dict[str, dict[int, Any]]:
    marks: dict[str, dict[int, Any]] = {}
    for path in directory.glob("*.json"):
        name, _, rank = path.stem.rpartition("-")
        marks.setdefault(name, {})[int(rank)] = json.loads(path.read_text())
    return marks


def _end_all(launcher: subprocess.Popen[bytes], directory: Path) -> list[str]:
    """End all processes of a job; describe those that outlived its launcher."""
    if launcher.poll() is None:
        launcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(5)
    wait_for(lambda: not _processes(directory), within_s=5, must=False)
    left = _processes(directory)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    launcher.wait()
    wait_for(lambda: not _processes(directory), within_s=10)
    return [f"{pid}: {command}" for pid, command in left.items()]


def _processes(directory: Path) -> dict[int, str]:
    """The living processes of one job; a zombie has no environment any more."""
    token = f"{_SCRATCH}={directory}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if token in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(process.name)] = command.decode(errors="replace")
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


# ---------------------------------------------------------------- on the ranks


class Watched(ft.Hooks):
    """A communicator's waiting and repairs, under the watchdog."""

    def __init__(self, dog: ft.Watchdog) -> None:
        self._dog = dog

    def waiting(self) -> AbstractContextManager[object]:
        return self._dog.waiting()

    def before_recovery(self) -> None:
        self._dog.end_if_woken()


def begin(cold: ft.ColdSpares | None = None) -> ft.Communicator:
    """Meet the other ranks, shielded; whoever reaches the common end leaves the mark ``end``.

    Args:
        cold: processes that wait beside the ranks; none by default.
    """
    faulthandler.dump_traceback_later(float(os.environ[_STACKS_AFTER_S]))
    communicator = ft.Communicator.start(cold=cold)
    maps = Path("/proc/self/maps").read_text().splitlines()
    mark("start", {"segments": sorted({x.split()[-1] for x in maps if "/dev/shm/" in x})})
    atexit.register(_ended)  # before the shield's own, so it runs after the farewell
    ft.shield(communicator.leave)
    return communicator


def _ended() -> None:
    from mpi4py import MPI

    if MPI.Is_finalized():
        mark("end")


def mark(name: str, content: Any = None) -> None:
    """Leave *content* (JSON) under *name* and this rank, whole or not at all."""
    path = _mark(name, int(os.environ["OMPI_COMM_WORLD_RANK"]))
    aside = path.with_suffix(f".{threading.get_ident()}")
    aside.write_text(json.dumps(content))
    aside.replace(path)


def seen(name: str, rank: int) -> bool:
    """Whether *rank* has left this mark."""
    return _mark(name, rank).exists()


def _mark(name: str, rank: int) -> Path:
    return Path(os.environ[_SCRATCH]) / "marks" / f"{name}-{rank}.json"


def wait_for(condition: Callable[[], bool], *, within_s: float = 30, must: bool = True) -> None:
    """Return when *condition()* holds; after *within_s* seconds raise, or return if not *must*."""
    limit = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > limit:
            if must:
                raise TimeoutError(f"a condition did not come true within {within_s:g} s")
            return
        time.sleep(0.002)


def end_by(how: str) -> None:
    """End this rank in one of the ways a rank can end without its peers."""
    mark("dying", how)
    if how in ("SIGKILL", "SIGSEGV", "SIGTERM"):
        os.kill(os.getpid(), getattr(signal, how))
        threading.Event().wait()  # until the signal has arrived
    elif how == "os._exit(0)":
        os._exit(0)
    elif how == "os._exit(1)":
        os._exit(1)
    elif how == "sys.exit(1)":
        sys.exit(1)
    elif how == "uncaught exception":
        raise RuntimeError("a bug on one rank")
    elif how == "exception in a thread":
        thread = threading.Thread(target=lambda: int("a bug in a thread"))
        thread.start()
        thread.join()
    elif how == "SystemExit under shielded()":
        with ft.shielded():
            raise SystemExit(1)
    else:
        raise ValueError(f"no such end: {how}")


def end_on_entering(function: str) -> None:
    """End this rank when it next calls *function* of the MPI library, by a breakpoint there."""
    from mpi4py import MPI

    mark("dying", function)
    address = ctypes.cast(getattr(ctypes.CDLL(MPI.__file__), function), ctypes.c_void_p).value
    assert address is not None
    page = address & -mmap.PAGESIZE
    rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    failed = ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, rights)
    assert not failed
    ctypes.memset(address, _BREAKPOINT, 1)


def once_in_call(
    strike: Callable[[], None],
    *,
    where: tuple[str, ...] = ("ft/collectives.py", "ft/operations.py", "ft/repair.py"),
) -> None:
    """Call *strike()* from a thread when the main thread is inside an MPI call made in *where*.

    mpi4py leaves no frame of its own, and lets go of the interpreter inside a call.
    """
    main = threading.main_thread().ident

    def watch() -> None:
        wait_for(lambda: sys._current_frames()[main].f_code.co_filename.endswith(where))
        strike()

    threading.Thread(target=watch, daemon=True).start()


ITEMS = 12


def total(step: int) -> int:
    """The sum of all work of *step*, whoever does it."""
    return sum(step * ITEMS + item + 1 for item in range(ITEMS))


def share(pending: ft.Pending, rank: int, step: int) -> int:
    """The sum of the items of *step* that fall to *rank*."""
    alive = [r for r in pending.expected if r not in pending.lost]
    mine = []
    for item in range(ITEMS):
        owner = pending.expected[item % len(pending.expected)]
        if owner in pending.lost:
            owner = alive[item % len(alive)]
        if owner == rank:
            mine.append(step * ITEMS + item + 1)
    return sum(mine)


def add(communicator: ft.Communicator, step: int, *, size: int = 1) -> int:
    """Do and sum the work of *step*, with that of whoever dies on the way; collective."""
    import numpy as np

    received = np.empty(size, np.int64)
    while True:
        mine = share(communicator.pending, communicator.world.rank, step)
        try:
            communicator.allreduce(np.full(size, mine), received)
        except ft.PeerFailure:
            if not communicator.recover().finished:
                continue
        assert (received == received[0]).all(), received
        return int(received[0])
