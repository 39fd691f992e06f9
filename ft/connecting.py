"""Communicators between the members and a process that is to become a member.

Open MPI 5.0 makes them by exchanges that do not end when a process dies in the middle: the others
wait for ever, and cannot be interrupted. So every such call has a time limit.

A process that has been started is told by the runtime of the death of those processes alone with
which it has exchanged a message. Of another death it never hears, and a repair after it waits for
the dead for ever. So it sends each member a message before it counts as connected.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ft import mpi
from ft.process_end import fail_stop

__all__ = ["LONG_STEP_S", "between_two", "connected", "ended_after", "fail_stop_after", "to_all"]

#: Time for which a newcomer waits until its sponsor looks for it, seconds. The sponsor looks after
#: each of its steps, and a step after a death may trace a large model.
LONG_STEP_S = 1200

_TAG = 78
# Connecting takes some milliseconds, or some hundred where many processes share few cores.
_MEMBERS_S = 15.0
_STUCK = (
    "a rank died while all were being connected with a new one, which Open MPI cannot end: "
    "start again from the newest checkpoint"
)


def connected(new: Any, root: int, bridge: Any = None) -> Any:
    """Connect all ranks of *new* with a process to which one rank has a connection; collective.

    If a rank dies meanwhile, the others end themselves after a time limit.

    Args:
        new: communicator of the members, an ``mpi4py.MPI.Comm``.
        root: rank in *new* that has the connection.
        bridge: communicator of *root* and the process; None on the other ranks.

    Returns:
        Communicator of all ranks of *new* and the process.
    """
    with fail_stop_after(_MEMBERS_S, _STUCK):
        whole = _merged(new.Create_intercomm(root, bridge or new, 1, _TAG), high=False)
        whole.Recv(bytearray(1), source=whole.Get_size() - 1, tag=_TAG)
        return whole


def to_all(bridge: Any) -> Any:
    """Connect this process with all ranks, through its connection *bridge* to one of them."""
    MPI = mpi.load()
    whole = _merged(MPI.COMM_SELF.Create_intercomm(0, bridge, 0, _TAG), high=True)
    members = range(whole.Get_size() - 1)
    MPI.Request.Waitall([whole.Isend(b"1", dest=rank, tag=_TAG) for rank in members])
    return whole


def between_two(intercommunicator: Any, *, high: bool) -> Any:
    """Intracommunicator of a process and the process that started it; both call this.

    Args:
        intercommunicator: result of MPI_Comm_spawn on the starting process, of MPI_Comm_get_parent
            on the started one.
        high: whether this process has the higher rank in the result.
    """
    return _merged(intercommunicator, high=high)


@contextlib.contextmanager
def fail_stop_after(seconds: float, reason: str) -> Iterator[None]:
    """End this rank with *reason* if the block takes longer than *seconds*; the others go on."""
    limit = threading.Timer(seconds, fail_stop, [reason])
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


@contextlib.contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    """Let the system end this process, for which no rank waits yet, if the block takes longer.

    A signal is used because the block may hold Python's lock, so that no thread could run.
    """
    signal.alarm(seconds)  # the default action is to end; nothing else uses the alarm so early
    try:
        yield
    finally:
        signal.alarm(0)


def _merged(between: Any, *, high: bool) -> Any:
    try:
        return between.Merge(high)
    finally:
        between.Free()
