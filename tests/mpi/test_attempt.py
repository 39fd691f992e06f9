"""The numbered seam: results are handed over to whoever missed them, or made by all again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import ft


def sum_of_ones(comm: ft.Communicator) -> float:
    total = np.empty(1)
    while True:
        try:
            comm.allreduce(np.ones(1), total)
        except ft.PeerFailure:
            if not comm.recover().finished:
                continue
        return float(total[0])


def broadcast_of_three(comm: ft.Communicator) -> list[int]:
    buffer = np.full(2, 3)
    comm.broadcast(buffer)
    return buffer.tolist()


FOLLOWING: dict[str, Callable[[ft.Communicator], Any]] = {
    "allreduce": sum_of_ones,
    "broadcast": broadcast_of_three,
    "allgather": lambda comm: comm.allgather(np.array([comm.world.rank])).rows.tolist(),
    "barrier": lambda comm: comm.barrier(),
    "agree": lambda comm: comm.agree(True),
}


class Heard(ft.Hooks):
    """The recoveries that a rank hears of."""

    def __init__(self) -> None:
        self.recoveries: list[ft.Recovery] = []

    def recovered(self, recovery: ft.Recovery) -> None:
        self.recoveries.append(recovery)


def test_the_result_is_what_the_call_left_in_it(comm: ft.Communicator) -> None:
    result = np.zeros(2)

    def call(handle: Any) -> None:
        assert handle is comm.handle
        handle.Allreduce(np.array([1.0, 2.0]), result)

    comm.attempt(result, call)
    assert result.tolist() == [comm.world.size, 2.0 * comm.world.size]
    assert comm.done == 1


@pytest.mark.parametrize("result", [np.zeros((3, 2)).T, np.zeros(4)[::2]])
def test_a_result_must_be_contiguous(comm: ft.Communicator, result: np.ndarray) -> None:
    calls: list[Any] = []
    with pytest.raises(ft.UsageError, match=r"contiguous buffers. Received: strides="):
        comm.attempt(result, calls.append)
    assert (calls, comm.done) == ([], 0)


def test_an_error_that_is_not_mpi_s_is_the_caller_s(comm: ft.Communicator) -> None:
    with pytest.raises(ZeroDivisionError):
        comm.attempt(np.zeros(1), lambda handle: 1 / 0)
    assert (comm.done, comm.failure) == (0, None)
    assert sum_of_ones(comm) == comm.world.size


def failing_after(comm: ft.Communicator, result: np.ndarray, victim: int) -> Callable[[Any], None]:
    """An allreduce that completes everywhere, but fails on rank *victim* when it has."""

    def call(handle: Any) -> None:
        handle.Allreduce(np.full(3, 1.0 + comm.world.rank), result)
        handle.Agree(1)  # complete everywhere; a revoke does not end this call
        if comm.world.rank == victim:
            result[:] = np.nan  # undefined after a failure
            raise MPI.Exception(MPI.ERR_PROC_FAILED)

    return call


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize("victim", [0, -1])
def test_a_rank_that_is_one_behind_is_handed_the_result(
    comm: ft.Communicator, victim: int, following: str
) -> None:
    victim = comm.world.ranks[victim]
    before = comm.world
    comm.attach(hooks := Heard())
    result = np.empty(3)
    behind = False
    try:
        comm.attempt(result, failing_after(comm, result, victim))
    except ft.PeerFailure as failure:
        behind = True
        assert (failure.operation, comm.failure) == (1, failure)
        recovery = comm.recover()
        assert recovery.finished
        assert recovery.operation == 1
    assert behind == (comm.world.rank == victim)
    assert comm.done == 1
    wanted = sum(1.0 + rank for rank in before.ranks)
    assert result.tolist() == [wanted] * 3

    outcome = FOLLOWING[following](comm)
    assert comm.done == 2
    assert comm.failure is None
    (recovery,) = hooks.recoveries
    assert recovery.finished is behind
    assert recovery.operation == (1 if behind else 2)
    assert recovery.lost == ()
    assert (recovery.before, recovery.after) == (before, comm.world)
    assert recovery.repair_s >= 0
    assert comm.world.ranks == before.ranks
    assert comm.world.generation == 1

    dones = comm.allgather(np.array([comm.done])).rows.ravel().tolist()
    assert dones == [2] * comm.world.size
    expected = {
        "allreduce": comm.world.size,
        "broadcast": [3, 3],
        "allgather": [[rank] for rank in before.ranks],
        "barrier": None,
        "agree": True,
    }
    assert outcome == expected[following]
    assert sum_of_ones(comm) == comm.world.size
    assert comm.done == 4


@pytest.mark.mpi(min_size=2)
def test_what_the_others_hold_is_not_touched_by_the_hand_over(comm: ft.Communicator) -> None:
    victim = comm.world.ranks[-1]
    result = np.empty(3)
    try:
        comm.attempt(result, failing_after(comm, result, victim))
    except ft.PeerFailure:
        assert comm.recover().finished
    result.flags.writeable = False
    assert sum_of_ones(comm) == comm.world.size
    assert comm.done == 2


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("revoker", [0, -1])
@pytest.mark.parametrize("times", [1, 3])
def test_where_nobody_has_the_result_all_make_the_operation_again(
    comm: ft.Communicator, revoker: int, times: int
) -> None:
    revoker = comm.world.ranks[revoker]
    comm.barrier()
    comm.handle.Agree(1)  # the barrier is over everywhere
    total = np.empty(1)
    for generation in range(1, times + 1):
        if comm.world.rank == revoker:
            comm.handle.Revoke()
        with pytest.raises(ft.PeerFailure, match="operation 2 did not complete"):
            comm.allreduce(np.ones(1), total)
        with pytest.raises(ft.PeerFailure):  # again and again, until recover()
            comm.allreduce(np.ones(1), total)
        recovery = comm.recover()
        assert not recovery.finished
        assert (recovery.operation, comm.done, comm.failure) == (2, 1, None)
        assert comm.world.generation == generation
        assert comm.pending == ft.Pending(operation=2, expected=comm.world.ranks, lost=())
    comm.allreduce(np.ones(1), total)
    assert (total[0], comm.done) == (comm.world.size, 2)


@pytest.mark.parametrize("following", FOLLOWING)
def test_collectives_of_known_input_recover_by_themselves(
    comm: ft.Communicator, following: str
) -> None:
    comm.attach(hooks := Heard())
    if comm.world.rank == 0:
        comm.handle.Revoke()
    FOLLOWING[following](comm)
    assert comm.done == 1
    assert len(hooks.recoveries) == 1
    assert sum_of_ones(comm) == comm.world.size


def test_a_result_that_cannot_be_right_is_made_again(comm: ft.Communicator) -> None:
    total, verdicts = np.empty(1), [False, True]

    def valid() -> bool:
        comm.handle.Agree(1)  # the sum is complete everywhere
        return verdicts.pop(0)

    with pytest.raises(ft.PeerFailure, match="operation 1 did not complete"):
        comm.allreduce(np.ones(1), total, valid=valid)
    assert not comm.recover().finished
    comm.allreduce(np.ones(1), total, valid=valid)
    assert (total[0], comm.done, verdicts) == (comm.world.size, 1, [])


@pytest.mark.mpi(min_size=2)
def test_whoever_doubts_its_result_is_handed_that_of_the_others(comm: ft.Communicator) -> None:
    total = np.empty(1)

    def valid() -> bool:
        comm.handle.Agree(1)  # the sum is complete everywhere
        return not comm.world.is_leader

    try:
        comm.allreduce(np.ones(1), total, valid=valid)
        assert not comm.world.is_leader
    except ft.PeerFailure:
        assert comm.world.is_leader
        assert comm.recover().finished
    assert (total[0], comm.done) == (comm.world.size, 1)
    assert sum_of_ones(comm) == comm.world.size


def test_a_library_that_never_computes_rightly_is_given_up(world: ft.World) -> None:
    # Each rank alone: who counts how many doubts depends on who revokes first.
    comm = ft.Communicator(MPI.COMM_SELF.Dup(), ft.World(members=(world.me,), rank=world.rank))

    def compute() -> None:
        for _ in range(10):
            try:
                comm.allreduce(np.ones(1), np.empty(1), valid=lambda: False)
            except ft.PeerFailure:
                assert not comm.recover().finished

    with pytest.raises(ft.Unrecoverable, match=r"valid result .* Received: none"):
        compute()
    assert comm.done == 0


@pytest.mark.mpi(min_size=2)
def test_ranks_that_did_not_make_the_same_calls_are_told_so(world: ft.World) -> None:
    comm = ft.Communicator(MPI.COMM_WORLD.Dup(), world)
    comm.handle.Agree(1)  # Open MPI crashes when a communicator is revoked while others make it
    # Operations that nobody waits in: the contract of attempt() is broken on purpose.
    if comm.world.rank == 0:
        for _ in range(2):
            comm.attempt(np.zeros(1), lambda handle: None)
    if comm.world.rank == 0:
        comm.handle.Revoke()
    with pytest.raises(ft.PeerFailure):
        comm.allreduce(np.ones(1), np.empty(1))
    with pytest.raises(ft.Unrecoverable, match="they did not make the same calls"):
        comm.recover()
