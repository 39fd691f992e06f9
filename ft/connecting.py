"""Communicators of those who are members and of a process that is to be one.

Open MPI 5.0 makes them by exchanges that do not end when somebody dies in the middle of one: who
waits there, waits for ever, and cannot be interrupted. So whoever does has a time limit.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ft import mpi
from ft.exit_guard import fail_stop

__all__ = ["LONG_STEP_S", "between_two", "connected", "ended_after", "fail_stop_after", "to_all"]

#: Time for which a newcomer waits until its sponsor looks for it, seconds: it does so after each of
#: its steps, and one after a death may trace a large model.
LONG_STEP_S = 1200

_TAG = 78
# It takes some milliseconds, or some hundred where many processes share few cores.
_MEMBERS_S = 15.0
_STUCK = (
    "a rank died while all were being connected with a new one, which Open MPI cannot end: "
    "start again from the newest checkpoint"
)


def connected(new: Any, root: int, bridge: Any = None) -> Any:
    """Connect all ranks of *new* with a process that one of them has a connection to; collective.

    Where a rank dies in it, the others end themselves after a time.

    Args:
        new: communicator of the members, an ``mpi4py.MPI.Comm``.
        root: rank in it that has the connection.
        bridge: communicator of the two; None on the other ranks.

    Returns:
        The communicator of all and of it.
    """
    with fail_stop_after(_MEMBERS_S, _STUCK):
        return _merged(new.Create_intercomm(root, bridge or new, 1, _TAG), high=False)


def to_all(bridge: Any) -> Any:
    """Connect a process with all ranks, to one of which it has the connection *bridge*."""
    alone = mpi.load().COMM_SELF
    return _merged(alone.Create_intercomm(0, bridge, 0, _TAG), high=True)


def between_two(intercommunicator: Any, *, high: bool) -> Any:
    """The connection of a process with the one that started it; both call this.

    Args:
        intercommunicator: result of MPI_Comm_spawn, and of MPI_Comm_get_parent on the other.
        high: whether this process comes after the other one.
    """
    return _merged(intercommunicator, high=high)


@contextlib.contextmanager
def fail_stop_after(seconds: float, reason: str) -> Iterator[None]:
    """End this rank, saying why, if the block takes longer: the others go on without it."""
    limit = threading.Timer(seconds, fail_stop, [reason])
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


@contextlib.contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    """Let the system end this process, which nobody waits for yet, if the block takes longer.

    Python's lock may be held in it, so that no thread could.
    """
    signal.alarm(seconds)  # whose default is the end, and which nobody else uses so early
    try:
        yield
    finally:
        signal.alarm(0)


def _merged(between: Any, *, high: bool) -> Any:
    try:
        return between.Merge(high)
    finally:
        between.Free()
