"""Functions that the programs of :mod:`tests.fault.ranks` call on their ranks.

Each rank of each job imports it, so it imports little.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import ft

# Every process of a job carries this, whoever its parent is by then.
SCRATCH = "FAULT_TEST_SCRATCH"
STACKS_AFTER_S = "FAULT_TEST_STACKS_AFTER_S"

_BREAKPOINT = 0xCC  # of x86-64; nobody debugs the rank, so it dies of it


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
    faulthandler.dump_traceback_later(float(os.environ[STACKS_AFTER_S]))
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
    return Path(os.environ[SCRATCH]) / "marks" / f"{name}-{rank}.json"


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
