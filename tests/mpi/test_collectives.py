"""The result of each collective on every living rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import numpy as np
import pytest

import ft

DTYPES = ["f4", "f8", "i1", "i4", "i8", "u1", "u2", "u8", "c8", "c16"]


def test_everybody_is_a_member(world: ft.World, comm: ft.Communicator) -> None:
    assert world.ranks == tuple(range(int(os.environ["OMPI_COMM_WORLD_SIZE"])))
    assert world.rank == int(os.environ["OMPI_COMM_WORLD_RANK"]) == world.place
    assert (world.me.pid, world.me.host) == (os.getpid(), socket.gethostname())
    assert (world.generation, comm.done) == (0, 0)
    assert len({member.pid for member in world.members}) == world.size
    assert comm.ulfm
    assert ft.has_ulfm()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1000,), (3, 4, 5)])
def test_allreduce_sums(comm: ft.Communicator, dtype: str, shape: tuple[int, ...]) -> None:
    ranks, size = comm.world.rank, comm.world.size
    base = (np.arange(np.prod(shape)) % 10).reshape(shape).astype(dtype)
    send = base + np.asarray(ranks, dtype)
    received = np.full(shape, 77).astype(dtype)
    kept = send.copy()
    comm.allreduce(send, received)
    np.testing.assert_array_equal(received, base * size + np.asarray(sum(range(size)), dtype))
    np.testing.assert_array_equal(send, kept)
    assert received.dtype == np.dtype(dtype)


@pytest.mark.parametrize("length", [0, 1, 1_000_000])
def test_allreduce_of_any_length(comm: ft.Communicator, length: int) -> None:
    send = np.full(length, comm.world.rank + 0.5, np.float32)
    send.flags.writeable = False
    received = np.full(length, np.nan, np.float32)
    comm.allreduce(send, received)
    assert (received == sum(rank + 0.5 for rank in comm.world.ranks)).all()
    assert (send == comm.world.rank + 0.5).all()
    assert comm.done == 1


def test_a_result_is_equal_to_the_last_bit_everywhere(comm: ft.Communicator) -> None:
    send = np.random.default_rng(comm.world.rank).normal(size=10_001).astype(np.float32)
    received = np.empty_like(send)
    comm.allreduce(send, received)
    rows = comm.allgather(received).rows
    assert (rows.view(np.uint32) == rows.view(np.uint32)[0]).all()


@pytest.mark.parametrize(
    ("send", "received"),
    [
        (np.zeros(3), np.zeros(4)),
        (np.zeros((2, 3)), np.zeros(6)),
        (np.zeros(3, np.float32), np.zeros(3, np.float64)),
        (np.zeros(3), np.zeros(6)[::2]),
        (np.zeros((3, 2)), np.zeros((2, 3)).T),
    ],
    ids=["length", "shape", "dtype", "strides", "transposed"],
)
def test_allreduce_refuses_unequal_buffers_and_says_nothing_to_anybody(
    comm: ft.Communicator, send: np.ndarray, received: np.ndarray
) -> None:
    # On one rank alone: were anything communicated, the others' next operation would not match.
    if comm.world.rank == comm.world.size - 1:
        with pytest.raises(ft.UsageError, match="Received: "):
            comm.allreduce(send, received)
    assert (comm.done, comm.failure) == (0, None)
    total = np.empty(1)
    comm.allreduce(np.ones(1), total)
    assert (total[0], comm.done) == (comm.world.size, 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "?", "c16"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (300_000,)])
def test_broadcast_copies_the_leader_s(
    comm: ft.Communicator, dtype: str, shape: tuple[int, ...]
) -> None:
    wanted = (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)
    buffer = wanted.copy() if comm.world.is_leader else np.ones(shape, dtype)
    comm.broadcast(buffer)
    np.testing.assert_array_equal(buffer, wanted)
    assert comm.done == 1


def test_broadcast_wants_a_contiguous_buffer(comm: ft.Communicator) -> None:
    with pytest.raises(ft.UsageError, match="contiguous"):
        comm.broadcast(np.zeros((4, 4))[:, 1])
    assert comm.done == 0


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (0,), (3, 0)])
def test_allgather_has_a_row_of_each(comm: ft.Communicator, shape: tuple[int, ...]) -> None:
    gathered = comm.allgather(np.full(shape, comm.world.rank, np.int32))
    assert gathered.ranks == comm.world.ranks
    assert gathered.rows.shape == (comm.world.size, *shape)
    assert gathered.rows.dtype == np.int32
    for rank in comm.world.ranks:
        np.testing.assert_array_equal(gathered[rank], np.full(shape, rank))
    assert comm.done == 1


def test_allgather_of_a_scalar(comm: ft.Communicator) -> None:
    gathered = comm.allgather(np.array(comm.world.rank * 1.5))
    assert gathered.rows.ravel().tolist() == [rank * 1.5 for rank in comm.world.ranks]


def test_allgather_takes_what_is_not_contiguous(comm: ft.Communicator) -> None:
    table = np.arange(12).reshape(3, 4) + comm.world.rank
    for rank, row in enumerate(comm.allgather(table[:, 1]).rows):
        assert row.tolist() == [1 + rank, 5 + rank, 9 + rank]


def test_a_rank_that_is_not_a_member_has_no_row(comm: ft.Communicator) -> None:
    gathered = comm.allgather(np.zeros(1))
    with pytest.raises(ValueError, match="not in tuple"):
        gathered[comm.world.size]


@pytest.fixture
def short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPI calls of at most 1000 bytes."""
    monkeypatch.setattr("ft.pieces._MOST_BYTES", 1000)


@pytest.mark.usefixtures("short_calls")
@pytest.mark.parametrize("shape", [(0,), (124,), (125,), (126,), (7, 300)])
def test_what_is_too_long_for_one_call_goes_in_several(
    comm: ft.Communicator, shape: tuple[int, ...]
) -> None:
    rank, size = comm.world.rank, comm.world.size
    wanted = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    buffer = wanted.copy() if comm.world.is_leader else np.ones(shape)
    comm.broadcast(buffer)
    np.testing.assert_array_equal(buffer, wanted)
    gathered = comm.allgather(wanted + rank)
    assert gathered.ranks == comm.world.ranks
    np.testing.assert_array_equal(gathered.rows, [wanted + rank for rank in comm.world.ranks])
    total = np.empty(shape)
    comm.allreduce(wanted + 1, total, chunk=10**9)
    np.testing.assert_array_equal(total, size * (wanted + 1))
    assert comm.done == 3


@pytest.mark.usefixtures("short_calls")
def test_no_call_is_longer_than_it_may_be(comm: ft.Communicator) -> None:
    lengths: list[int] = []

    class Measured:
        """MPI's communicator, which notes the bytes of each call."""

        def __getattr__(self, name: str) -> Callable[..., object]:
            def call(*arrays: np.ndarray, **more: int) -> object:
                lengths.extend(array.nbytes for array in arrays)
                return getattr(handle, name)(*arrays, **more)

            return call

    handle = comm.handle
    for operation in (
        ft.collectives.broadcast(comm.world, np.zeros(3000), np.zeros(3000)),
        ft.collectives.allgather(comm.world, np.zeros(3000)),
        ft.collectives.allreduce(comm.world, np.zeros(3000), np.zeros(3000), chunk=3000),
    ):
        operation.call(Measured())
        assert operation.valid()
    assert max(lengths) <= 1000 + 8 * comm.world.size  # with the tags of the ranks
    comm.handle.Agree(1)  # all have made them


@pytest.mark.parametrize("against", [None, 0, -1])
def test_agree_is_true_when_all_say_so(comm: ft.Communicator, against: int | None) -> None:
    dissenter = None if against is None else comm.world.ranks[against]
    assert comm.agree(comm.world.rank != dissenter) is (against is None)
    assert comm.agree(False) is False
    assert comm.agree(comm.world.rank == dissenter) is (
        against is not None and comm.world.size == 1
    )
    assert comm.done == 3


def test_barrier_waits_for_all(comm: ft.Communicator) -> None:
    for _ in range(3):
        comm.barrier()
    assert comm.done == 3


def test_operations_are_numbered_and_pending_says_whose_work_comes_next(
    comm: ft.Communicator,
) -> None:
    def pending(operation: int) -> ft.Pending:
        return ft.Pending(operation=operation, expected=comm.world.ranks, lost=())

    assert comm.pending == pending(1)
    comm.barrier()
    comm.broadcast(np.zeros(2))
    assert comm.pending == pending(3)
    comm.allgather(np.zeros(1))
    comm.allreduce(np.zeros(2), np.zeros(2))
    comm.agree(True)
    assert (comm.done, comm.pending) == (5, pending(6))


def test_recover_wants_a_failure_first(comm: ft.Communicator) -> None:
    with pytest.raises(ft.UsageError, match="no failure"):
        comm.recover()


REFUSED = {
    "the same buffer twice": lambda: (buffer := np.zeros(3), buffer),
    "a sum of truth values": lambda: (np.zeros(3, bool), np.zeros(3, bool)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_mpi_cannot_sum_is_the_caller_s_mistake_not_a_peer_s_death(
    comm: ft.Communicator, what: str
) -> None:
    with pytest.raises(ft.UsageError):
        comm.allreduce(*REFUSED[what]())
    assert (comm.done, comm.failure) == (0, None)


READ_ONLY = np.zeros(2)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("call", "received"),
    [
        (lambda comm: comm.allreduce(np.array([None]), np.array([None])), "dtype=object"),
        (lambda comm: comm.allreduce(np.zeros(2, ">f8"), np.zeros(2, ">f8")), "dtype=>f8"),
        (lambda comm: comm.allreduce(np.zeros(2), READ_ONLY), "a read-only array"),
        (lambda comm: comm.allreduce(np.zeros(2), np.zeros(2), chunk=-1), "chunk=-1"),
        (lambda comm: comm.broadcast(READ_ONLY), "a read-only array"),
        (lambda comm: comm.allgather(np.array([None])), "dtype=object"),
    ],
)
def test_what_mpi_cannot_send_is_refused_before_it_is_sent(
    comm: ft.Communicator, call: Callable[[ft.Communicator], object], received: str
) -> None:
    done = comm.done
    with pytest.raises(ft.UsageError, match=f"Received: {received}"):
        call(comm)
    assert comm.done == done
