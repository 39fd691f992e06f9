"""Answers that one rank finds for all of them, and another one if it dies over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ft.communicator import Communicator

__all__ = ["one_answer"]

# In place of the number of an answer's bytes.
_NOBODY_LOOKED = -1


def one_answer(
    communicator: Communicator, look: Callable[[], bytes], *, sources: Sequence[int] = ()
) -> bytes:
    """Bytes that *look* returned on the leader, on every rank; collective. Recovers by itself.

    If the leader dies before all have its answer, the next leader looks; so a value that only one
    rank knows is never taken from one that has not looked.

    Args:
        communicator: the members.
        look: local function, called on one rank, and on its successors if that dies, perhaps more
            than once. What it raises is raised there alone.
        sources: original ranks, equal on all ranks; the first living one of them looks in place of
            the leader. None by default.

    Returns:
        The answer, equal on all ranks.

    Raises:
        Unrecoverable: no source is alive; raised on every rank.

    Example:
        >>> comm = ft.Communicator.start()
        >>> ft.one_answer(comm, lambda: b"found by one")
        b'found by one'
    """
    while True:
        world = communicator.world
        alive = [rank for rank in sources if rank in world.ranks] or [world.leader]
        mine = look() if world.rank == alive[0] else None
        # Whether to go on follows from what was sent alone: ranks learn of a death one operation
        # apart, so that each may take another one for the leader.
        size = np.array([_NOBODY_LOOKED if mine is None else len(mine)], np.int64)
        communicator.broadcast(size, sources=sources)
        if size[0] == _NOBODY_LOOKED:
            continue
        content = np.zeros(int(size[0]) + 1, np.uint8)
        if mine is not None and len(mine) == size[0]:
            content[:-1], content[-1] = np.frombuffer(mine, np.uint8), 1
        del mine  # it may be large
        communicator.broadcast(content, sources=sources)
        if content[-1]:
            return content[:-1].tobytes()
