"""A result that was written over by its owner is still right where a peer needs it."""

from __future__ import annotations

import numpy as np
import pytest

import ft
from tests.fault.programs import begin, end_by, mark
from tests.fault.ranks import run


def one_buffer(how: str) -> None:
    """Rank 2 dies when rank 0 has completed an operation and rank 1 has not."""
    communicator = begin()
    rank = communicator.world.rank
    mine, total = np.full(200_000, rank + 1.0), np.zeros(200_000)

    def call(comm: object) -> None:
        comm.Allreduce(mine, total)
        if rank == 0:
            comm.Send(np.zeros(1), dest=2)
        if rank == 1:
            comm.Recv(np.zeros(1), source=2)
        if rank == 2:
            comm.Recv(np.zeros(1), source=0)  # which has its result
            end_by("SIGKILL")

    try:
        communicator.attempt(total, call)
    except ft.PeerFailure:
        assert communicator.recover().finished
    mark("first", [total.min(), total.max()])
    if how == "in place":
        total /= 3
    while True:
        try:
            communicator.allreduce(mine, total)
            break
        except ft.PeerFailure:
            if communicator.recover().finished:
                break
    mark("second", [total.min(), total.max()])


@pytest.mark.parametrize("how", ["in place", "by the next sum"])
def test_the_owner_may_write_over_it_at_once(how: str) -> None:
    job = run(one_buffer, ranks=3, how=how)
    assert job["first"] == {0: [6.0, 6.0], 1: [6.0, 6.0]}, job.output
    assert job["second"] == {0: [3.0, 3.0], 1: [3.0, 3.0]}


def doubted(left: int) -> None:
    """A rank dies in each attempt at one operation, and MPI reports success without its part."""
    communicator = begin()

    def call(comm: object) -> None:
        comm.Barrier()

    def whole() -> bool:
        return communicator.world.size == left

    result, finished = np.zeros(1), False
    while not finished:
        try:
            communicator.attempt(result, call, whole)
            finished = True
        except ft.PeerFailure:
            if communicator.world.rank == communicator.world.ranks[-1]:
                end_by("SIGKILL")
            finished = communicator.recover().finished
    mark("members", communicator.world.ranks)


def test_a_library_that_loses_parts_of_dead_ranks_is_not_blamed() -> None:
    job = run(doubted, ranks=6, left=2)
    assert job.ended == {0, 1}, job.output
    assert job["members"] == {0: [0, 1], 1: [0, 1]}
