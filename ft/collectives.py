"""Collectives as operations: the MPI calls of each one, and whether its result is valid.

Each function builds one attempt for the members of a given world, without communication. After a
repair a new operation must be built, for the members that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ft.errors import Unrecoverable, UsageError
from ft.operations import Operation
from ft.pieces import most_elements, pieces
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

# Bytes of one call: half of what a core's cache holds, and enough for a ring to be busy sending.
_CHUNK_BYTES = 512 << 10
_RING_BYTES = 64 << 10
# Bytes of one call between hosts: each call pays the network's latency, and no cache is the limit.
_FAR_BYTES = 64 << 20


def chunk_elements(itemsize: int, ranks: int, *, hosts: int = 1) -> int:
    """Number of elements of a long vector to reduce in one MPI call. Pure.

    Reducing 100 MB over two ranks of one host took 44 ms in one call and 13 ms in
    calls of 512 KB, which stay in the cache (Open MPI 5.0.11); 16 ms in calls of
    128 KB. With many ranks each rank still gets 64 KB of a call. Between hosts each call pays the
    network's latency: 4.1 MB over two hosts of two ranks, at 1 Gbit/s and 1 ms, took 373 ms in
    calls of 512 KB and 74 ms in one call. Counts stay far below 2^31.

    Args:
        itemsize: bytes of one element.
        ranks: number of members.
        hosts: number of hosts of the members, 1 by default.

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
    """Allreduce that sums *send* over the members into *recv*.

    Args:
        world: the members.
        send, recv: contiguous arrays of one shape and dtype that do not overlap.
        valid: local function that returns whether *recv* can be right; by default the members are
            counted by a second allreduce.
        untouched: whether the caller does not write to *recv* until the next operation is complete.
        overwritten: function called once all members are present, after a barrier and before the
            sum overwrites the result of the previous operation; no barrier by default.
        chunk: elements of one MPI call; :func:`chunk_elements` by default.

    Raises:
        UsageError: shapes or dtypes differ, arrays are not of numbers of this machine, *recv* is
            read-only, or *chunk* is below 1.
    """
    if chunk is not None and chunk < 1:
        raise UsageError(f"a chunk has at least 1 element. Received: chunk={chunk}")
    _must_be_numbers("allreduce", send)
    _must_be_numbers("allreduce", recv, written=True)
    if send.shape != recv.shape or send.dtype != recv.dtype:
        raise UsageError(
            "allreduce wants a send and a receive buffer of one shape and dtype. "
            f"Received: {send.dtype}{send.shape} and {recv.dtype}{recv.shape}"
        )
    flat_send, flat_recv = send.reshape(-1), recv.reshape(-1)
    wanted = chunk or chunk_elements(send.itemsize, world.size, hosts=world.host_count)
    most = min(wanted, most_elements(send.itemsize))
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


def _must_be_numbers(call: str, array: Any, *, written: bool = False) -> None:
    """Raise UsageError unless MPI can send *array* or, if it is *written*, receive into it."""
    if not isinstance(array, np.ndarray):
        problem = type(array).__name__
    elif array.dtype.kind not in "biufc" or not array.dtype.isnative:
        problem = f"dtype={array.dtype}"
    elif written and not array.flags.writeable:
        problem = "a read-only array"
    else:
        return
    raise UsageError(
        f"{call} wants NumPy arrays of numbers in this machine's byte order, and writes to one. "
        f"Received: {problem}"
    )


def barrier() -> Operation:
    """Barrier over all members, with an empty result."""
    return Operation(np.empty(0, np.uint8), lambda comm: comm.Barrier())


def broadcast(
    world: World, buffer: np.ndarray, own: np.ndarray, *, sources: Sequence[int] = ()
) -> Operation:
    """Broadcast into every member's *buffer*, from the leader or the first living source.

    Args:
        world: the members.
        buffer: contiguous array that receives the content.
        own: this rank's content before the first attempt, a copy of *buffer*: a source that died
            may have written a part of *buffer*.
        sources: original ranks, equal on all ranks; empty for the leader.

    Raises:
        UsageError: *buffer* is not of numbers of this machine, or is read-only.
        Unrecoverable: none of the sources is alive.
    """
    _must_be_numbers("broadcast", buffer, written=True)
    alive = [rank for rank in sources if rank in world.ranks]
    if sources and not alive:
        raise Unrecoverable(
            f"one of ranks {', '.join(map(str, sources))} must live to be copied. "
            "Received: none; start again from the newest checkpoint"
        )
    root = world.ranks.index(alive[0] if sources else world.leader)

    def call(comm: Any) -> None:
        np.copyto(buffer, own)
        for piece in pieces(buffer):
            comm.Bcast(piece, root=root)
        # No rank may run ahead by more than one operation, nor complete it without all pieces.
        comm.Barrier()

    return Operation(buffer, call)


def allgather(world: World, send: np.ndarray) -> Operation:
    """Allgather of bytes: a row of each member, in their order, a tag of the rank, then its *send*.

    When a rank dies meanwhile, MPI may report success and leave zeros in place of rows; the tags
    reveal this. Rows that are too long for one call are gathered in pieces, each with a tag.

    Args:
        world: the members.
        send: array of the same shape and dtype on all ranks.

    Raises:
        UsageError: *send* holds objects, which are nothing but addresses on other ranks.
    """
    if (kind := np.asarray(send).dtype).hasobject:
        raise UsageError(f"allgather wants an array without objects. Received: dtype={kind}")
    body = np.frombuffer(np.asarray(send).tobytes(), np.uint8)
    tag, tags = rank_tag(world.rank), np.stack([rank_tag(rank) for rank in world.ranks])
    rows = np.empty((world.size, tag.size + body.size), np.uint8)
    missing: list[bool] = []  # of each piece, whether a row of it is

    def call(comm: Any) -> None:
        missing.clear()
        at = tag.size
        for piece in pieces(body, arrays=world.size):
            mine = np.concatenate([tag, piece])
            whole = piece.size == body.size
            part = rows if whole else np.empty((world.size, mine.size), np.uint8)
            comm.Allgather(mine, part)
            missing.append(bool((part[:, : tag.size] != tags).any()))
            if not whole:
                rows[:, : tag.size], rows[:, at : at + piece.size] = tags, part[:, tag.size :]
            at += piece.size

    return Operation(rows, call, lambda: not any(missing), untouched=True)


def gathered(rows: np.ndarray, like: np.ndarray) -> Gathered:
    """Arrays in the rows of a completed :func:`allgather`.

    Args:
        rows: uint8, of shape (ranks, bytes of the tag and of one array).
        like: array of the shape and dtype of each row's array.
    """
    content = rows[:, rank_tag(0).size :].copy().reshape(-1).view(like.dtype)
    return Gathered(ranks=tagged_ranks(rows), rows=content.reshape(len(rows), *like.shape))


def count_flags(world: World, flag: bool) -> Operation:
    """Number of members whose *flag* is true, and number of members counted: int64, shape (2,).

    MPI_Comm_agree is not used: a revoke does not end it, and it would pair with the agreement
    inside the shrink of a rank that is one operation behind.

    Args:
        world: the members.
        flag: flag of this rank.
    """
    mine, result = np.array([bool(flag), 1], np.int64), np.zeros(2, np.int64)
    return Operation(
        result,
        lambda comm: comm.Allreduce(mine, result),
        lambda: int(result[1]) == world.size,
        untouched=True,
    )
