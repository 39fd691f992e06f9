"""Collectives as operations: the calls of MPI that each one makes, and whether its result is valid.

Each function makes one attempt for the members of one world, without communication. An attempt
after a repair wants a new operation, for the members of then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ft.errors import Unrecoverable, UsageError
from ft.operations import Operation
from ft.records import Gathered
from ft.wire import rank_tag, tagged_ranks
from ft.world import World

__all__ = [
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "chunk_elements",
    "count_flags",
    "gathered",
]

# Of one call: half of what a core's cache holds, and enough for a ring to be busy sending.
_CHUNK_BYTES = 512 << 10
_RING_BYTES = 64 << 10
# Of one call between hosts: each pays the network's latency, and no cache is the limit.
_FAR_BYTES = 64 << 20


def chunk_elements(itemsize: int, ranks: int, *, hosts: int = 1) -> int:
    """Number of elements of a long vector to reduce in one call of MPI. Pure.

    Reducing 100 MB over two ranks of one host took 44 ms in one call and 13 ms in
    calls of 512 KB, which stay in the cache (Open MPI 5.0.11); 16 ms in calls of
    128 KB. With many ranks each still gets 64 KB of a call. Between hosts each call pays the
    network's latency: 4.1 MB over two hosts of two ranks, at 1 Gbit/s and 1 ms, took 373 ms in
    calls of 512 KB and 74 ms in one. Counts stay far below 2^31.

    Args:
        itemsize: bytes of one element.
        ranks: number of members.
        hosts: number of hosts that they are on, 1 by default.

    Returns:
        Elements of one call, at least 1 for items of up to 512 KB.

    Example:
        >>> ft.chunk_elements(4, 2)
        131072
        >>> ft.chunk_elements(4, 64)
        1048576
    """
    near = max(_CHUNK_BYTES, _RING_BYTES * ranks)
    return (near if hosts == 1 else max(near, _FAR_BYTES)) // itemsize


def allreduce(
    world: World,
    send: np.ndarray,
    recv: np.ndarray,
    *,
    valid: Callable[[], bool] | None = None,
    untouched: bool = False,
    overwritten: Callable[[], None] | None = None,
    chunk: int | None = None,
) -> Operation:
    """Sum of *send* over the members, into *recv*.

    Args:
        world: the members.
        send, recv: contiguous arrays of one shape and dtype that do not overlap.
        valid: local function that says whether *recv* can be right; by default the members count
            themselves.
        untouched: whether the caller leaves *recv* alone until the next operation is complete.
        overwritten: function called when all are there, before the sum overwrites the result of the
            operation before it; no barrier is made by default.
        chunk: elements in one call of MPI; :func:`chunk_elements` by default.

    Raises:
        UsageError: the buffers do not fit.
    """
    if send.shape != recv.shape or send.dtype != recv.dtype:
        raise UsageError(
            "allreduce wants a send and a receive buffer of one shape and dtype. "
            f"Received: {send.dtype}{send.shape} and {recv.dtype}{recv.shape}"
        )
    flat_send, flat_recv = send.reshape(-1), recv.reshape(-1)
    most = chunk or chunk_elements(send.itemsize, world.size, hosts=world.host_count)
    one, here = np.ones(1, np.int64), np.zeros(1, np.int64)

    def call(comm: Any) -> None:
        if overwritten is not None:
            comm.Barrier()
            overwritten()
        for at in range(0, recv.size, most):
            comm.Allreduce(flat_send[at : at + most], flat_recv[at : at + most])
        if valid is None:
            here[0] = 0
            comm.Allreduce(one, here)

    return Operation(recv, call, valid or (lambda: int(here[0]) == world.size), untouched)


def barrier() -> Operation:
    """Wait for all members, with an empty result."""
    return Operation(np.empty(0, np.uint8), lambda comm: comm.Barrier())


def broadcast(
    world: World, buffer: np.ndarray, own: np.ndarray, *, sources: Sequence[int] = ()
) -> Operation:
    """Copy of the leader's, or of the first living source's, content into everybody's *buffer*.

    Args:
        world: the members.
        buffer: contiguous array that receives the content.
        own: content of this rank before the first attempt, a copy of *buffer*: a source that
            died may have written a part of it.
        sources: original ranks, equal on all; none for the leader.

    Raises:
        Unrecoverable: none of the sources is alive.
    """
    alive = [rank for rank in sources if rank in world.ranks]
    if sources and not alive:
        raise Unrecoverable(
            f"one of ranks {', '.join(map(str, sources))} must live to be copied. "
            "Received: none; start again from the newest checkpoint"
        )
    root = world.ranks.index(alive[0] if sources else world.leader)

    def call(comm: Any) -> None:
        np.copyto(buffer, own)
        comm.Bcast(buffer, root=root)
        comm.Barrier()  # nobody may run ahead by more than one operation

    return Operation(buffer, call)


def allgather(world: World, send: np.ndarray) -> Operation:
    """Rows of bytes from all members, in their order: a tag of the rank, then its *send*.

    With a death on the way, MPI may report success and leave zeros where rows should be; the
    tags tell.

    Args:
        world: the members.
        send: array of one shape and dtype everywhere.
    """
    body = np.frombuffer(np.asarray(send).tobytes(), np.uint8)
    mine = np.concatenate([rank_tag(world.rank), body])
    rows = np.empty((world.size, mine.size), np.uint8)
    tags = np.stack([rank_tag(rank) for rank in world.ranks])
    return Operation(
        rows,
        lambda comm: comm.Allgather(mine, rows),
        lambda: bool((rows[:, : tags.shape[1]] == tags).all()),
        untouched=True,
    )


def gathered(rows: np.ndarray, like: np.ndarray) -> Gathered:
    """Arrays in the rows of a complete :func:`allgather`.

    Args:
        rows: uint8, of shape (ranks, bytes of the tag and of one array).
        like: array of the shape and dtype of each.
    """
    content = rows[:, rank_tag(0).size :].copy().reshape(-1).view(like.dtype)
    return Gathered(ranks=tagged_ranks(rows), rows=content.reshape(len(rows), *like.shape))


def count_flags(world: World, flag: bool) -> Operation:
    """Count of the members whose *flag* is true, then of all that were counted: int64, shape (2,).

    MPI's own Agree is not used: a revoke does not end it, and it would pair with the agreement
    inside the Shrink of a rank that is one operation behind.

    Args:
        world: the members.
        flag: this rank's.
    """
    mine, result = np.array([bool(flag), 1], np.int64), np.zeros(2, np.int64)
    return Operation(
        result,
        lambda comm: comm.Allreduce(mine, result),
        lambda: int(result[1]) == world.size,
        untouched=True,
    )
