"""One rank misses the end of an operation while the others are already in the next one."""

from __future__ import annotations

import numpy as np
import pytest

import ft
from tests.fault.programs import (
    add,
    begin,
    end_by,
    mark,
    once_in_call,
    seen,
    total,
    wait_for,
)
from tests.fault.ranks import run

NEXT = ("allreduce", "broadcast", "allgather", "barrier", "agree", "leave")


def one_behind(following: str, behind: int, victim: int) -> None:
    """Rank *behind* sees operation 1 fail after it was complete; *victim* dies in operation 2."""
    from mpi4py import MPI

    communicator = begin()
    rank = communicator.world.rank
    received = np.empty(1)

    def call(comm: MPI.Comm) -> None:
        comm.Allreduce(np.ones(1), received)
        comm.Agree(1)  # complete everywhere; a revoke does not end this call
        if rank == behind:
            if victim >= 0:
                wait_for(lambda: seen("dying", victim))
            raise MPI.Exception(MPI.ERR_PROC_FAILED)

    try:
        communicator.attempt(received, call)
    except ft.PeerFailure:
        mark("finished", communicator.recover().finished)
    mark("sum", received[0])
    if rank == victim:
        once_in_call(lambda: end_by("SIGKILL"))
    if following == "allreduce":
        mark("result", add(communicator, 1))
    elif following == "broadcast":
        buffer = np.full(2, 10)
        communicator.broadcast(buffer)
        mark("result", buffer.tolist())
    elif following == "allgather":
        mark("result", communicator.allgather(np.array([rank])).rows.tolist())
    elif following == "barrier":
        mark("result", communicator.barrier())
    elif following == "agree":
        mark("result", communicator.agree(True))
    if following != "leave":
        mark("after", [add(communicator, 2), communicator.done])
    communicator.leave()


# Leaving revokes what others are still in, so there the victim never gets to its death.
NEXT_AND_VICTIM = [(name, victim) for name in NEXT for victim in (-1, 3)][:-1]


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize(("following", "victim"), NEXT_AND_VICTIM)
def test_the_others_hand_over_and_all_go_on(following: str, behind: int, victim: int) -> None:
    job = run(one_behind, ranks=4, timeout_s=20, following=following, behind=behind, victim=victim)
    survivors = {0, 1, 2, 3} - {victim}
    assert job.ended == survivors, job.output
    assert job["finished"] == {behind: True}
    assert {job["sum"][rank] for rank in survivors} == {4.0}
    if following != "leave":
        assert all(job["after"][rank] == [total(2), 3] for rank in survivors)
        assert len({str(job["result"][rank]) for rank in survivors}) == 1
    if following == "allreduce":
        assert job["result"][0] == total(1)


def drifting(kind: str) -> None:
    """Rank 0 makes operations that carry nothing before rank 1 does, and rank 2 never does."""
    communicator = begin()
    rank = communicator.world.rank

    def empty() -> None:
        if kind == "broadcast":
            communicator.broadcast(np.empty((3, 0)))
        elif kind == "allgather":
            communicator.allgather(np.empty(0))
        else:
            try:
                communicator.allreduce(np.empty(0), np.empty(0))
            except ft.PeerFailure:
                if not communicator.recover().finished:
                    empty()

    if rank == 0:
        empty()
        mark("past the first", seen("entered", 1))
        empty()
    elif rank == 1:
        wait_for(lambda: seen("dying", 2))
        mark("entered")
        empty()
        empty()
    else:
        wait_for(lambda: seen("past the first", 0), within_s=1, must=False)
        end_by("SIGKILL")
    mark("sum", add(communicator, 2))


@pytest.mark.parametrize("kind", ["allreduce", "broadcast", "allgather"])
def test_an_operation_that_carries_nothing_makes_all_wait_too(kind: str) -> None:
    job = run(drifting, ranks=3, timeout_s=20, kind=kind)
    assert job["past the first"] == {0: True}
    assert job["sum"] == {0: total(2), 1: total(2)}
    assert job.ended == {0, 1}, job.output


def behind_by_much(length: int, most_bytes: int, *, dies: bool) -> None:
    """Rank 2 is handed a long result in pieces; rank 0, whose copy is sent, may die meanwhile."""
    from mpi4py import MPI

    if most_bytes:
        ft.pieces._MOST_BYTES = most_bytes
    communicator = begin()
    rank, sent = communicator.world.rank, np.zeros(length, np.uint8)
    sent[-1] = 7
    received = sent.copy() if rank != 2 else np.zeros(length, np.uint8)

    def call(comm: MPI.Comm) -> None:
        comm.Agree(1)  # complete everywhere; a revoke does not end this call
        if rank == 2:
            raise MPI.Exception(MPI.ERR_PROC_FAILED)

    if dies and rank == 0:
        once_in_call(lambda: end_by("SIGKILL"), where=("ft/operation_log.py",))
    try:
        communicator.attempt(received, call, untouched=True)
    except ft.PeerFailure:
        mark("finished", communicator.recover().finished)
    communicator.barrier()
    mark("right", bool((received == sent).all()))


@pytest.mark.parametrize("dies", [False, True])
def test_a_long_result_is_handed_over_in_pieces(dies: bool) -> None:
    job = run(behind_by_much, ranks=3, length=3_000_000, most_bytes=10_000, dies=dies)
    assert job.ended >= {1, 2}, job.output
    assert job["finished"] == {2: True}
    assert job["right"].items() >= {1: True, 2: True}.items()


def beyond_counts(length: int) -> None:
    """Copies of a vector with more bytes than MPI counts, by a message and by a broadcast."""
    communicator = begin()
    rank, vector = communicator.world.rank, np.zeros(length, np.uint8)
    vector[-1] = 7 - rank
    if rank == 0:
        assert ft.Sending(communicator, vector, to=1, number=0).wait()
    else:
        receiving = ft.Receiving(communicator, vector, source=0, number=0)
        assert receiving.wait() is vector
        assert vector[-1] == 7
        vector[-1] = 0
    communicator.broadcast(vector)
    assert vector[-1] == 7
    mark("right")


@pytest.mark.slow
def test_a_vector_may_have_more_bytes_than_mpi_counts() -> None:
    # 6.5 GB on each rank.
    job = run(beyond_counts, ranks=2, timeout_s=400, length=2**31 + 16)
    assert set(job["right"]) == job.ended == {0, 1}, job.output


@pytest.mark.slow
def test_a_result_of_more_bytes_than_mpi_counts_is_handed_over() -> None:
    # 4.5 GB on each rank.
    job = run(behind_by_much, ranks=3, timeout_s=400, length=2**31 + 16, most_bytes=0, dies=False)
    assert job["right"] == {0: True, 1: True, 2: True}, job.output
