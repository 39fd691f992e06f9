"""A process that a member starts takes the place of one that died, while the others work on."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import ft
from tests.fault.programs import begin, end_by, mark, seen, wait_for
from tests.fault.ranks import run

RANKS = 3


def work(victim: int, more: int, cold: int) -> None:
    """Make sums on three ranks; *victim* dies in the tenth.

    All end *more* sums after they are as many again.
    """
    from ft import mpi

    ranks = 3
    ft.allow_newcomers()
    spares = ft.ColdSpares.meet(cold) if cold else None
    if spares is not None and spares.is_one:
        bridge = spares.wait(expected=lambda: mark("expected"))
        if bridge is None:
            mark(f"over-{mpi.load().COMM_WORLD.Get_rank()}", True)
            mpi.finalize()
            return
        invitation = ft.Invitation(bridge)
    else:
        invitation = ft.Invitation.received()
    done = np.zeros(1, np.int64)
    left = more
    newcomer: Any = None

    def tell(replaced: tuple[tuple[int, int], ...]) -> None:
        new = {rank for _, rank in replaced}
        known = [rank for rank in communicator.world.ranks if rank not in new]
        communicator.broadcast(done, sources=known)

    if invitation is None:
        communicator = begin(spares)
    else:
        alone = mpi.load().COMM_SELF
        communicator = ft.Communicator(alone, invitation.world, initial_size=ranks)
        ft.shield(communicator.leave)
        mark(f"alone-{invitation.rank}", [communicator.world.size, communicator.world.is_leader])
        invitation.tell({"ready": invitation.welcome["said"]})
        admission = invitation.wait()
        assert isinstance(admission, ft.Admission)
        communicator.join(admission)
        if spares is not None:
            spares.announce()
        tell(communicator.wait().replaced)
    first_free = ranks
    command = [sys.executable, *sys.argv]

    sent, total = np.ones(4), np.empty(4)
    was_short = invitation is not None
    while left:
        while replaced := communicator.fill():
            tell(replaced)
        world = communicator.world
        was_short = was_short or world.size < ranks
        if done[0] == 10 and world.rank == victim:
            end_by("SIGKILL")
        if world.is_leader and world.size < ranks and newcomer is None:
            way = ft.Spawn(command) if spares is None else spares.call(first_free)
            newcomer = ft.Newcomer(first_free, way, {"said": 7})
        heard = None if newcomer is None else newcomer.receive()
        sent[1] = bool(heard) and heard == {"ready": 7}
        sent[2] = sent[3] = world.rank
        finished = False
        while not finished:
            try:
                communicator.allreduce(sent, total)
                finished = True
            except ft.PeerFailure:
                finished = communicator.recover().finished
        done[0] += 1
        assert total[2] == total[3] == sum(communicator.pending.expected)
        if total[1]:
            admitted = communicator.admit(newcomer)
            assert admitted is not None
            assert [member.rank for member in communicator.world.spares] == [admitted.rank]
        left -= was_short and communicator.world.size == ranks
    mark(f"end-{communicator.world.rank}", [communicator.world.ranks, int(done[0]), os.getpid()])
    if spares is not None and communicator.world.is_leader:
        wait_for(lambda: seen("expected", ranks + 1), within_s=10)
        spares.dismiss(known=communicator.world.everyone)


def hear(victim: int) -> None:
    """Connect three ranks with a process that one of them starts, and let *victim* die."""
    from ft import connecting, mpi

    ranks = 3
    ft.allow_newcomers()
    MPI = mpi.load()
    if (parent := MPI.Comm.Get_parent()) != MPI.COMM_NULL:
        whole = connecting.to_all(connecting.between_two(parent, high=True))
    else:
        world, bridge = MPI.COMM_WORLD, None
        if world.Get_rank() == 0:
            started = MPI.COMM_SELF.Spawn(sys.executable, sys.argv, maxprocs=1)
            bridge = connecting.between_two(started, high=False)
        whole = connecting.connected(world, 0, bridge)
    rank = whole.Get_rank()
    mark(f"connected-{rank}")  # of a file for each rank of its own world, 0 for the new one
    wait_for(lambda: all(seen(f"connected-{each}", each % ranks) for each in range(ranks + 1)))
    if rank == victim:
        end_by("SIGKILL")

    def heard() -> bool:
        MPI.COMM_SELF.Iprobe()  # any call that makes the library process its events
        return victim in mpi.failed_ranks(whole)

    wait_for(heard, within_s=10)
    mark(f"heard-{rank}")
    os._exit(0)


@pytest.mark.parametrize("victim", [1, 2])
def test_a_process_hears_of_the_death_of_members_it_did_not_work_with(victim: int) -> None:
    job = run(hear, ranks=RANKS, victim=victim, timeout_s=60)
    told = [rank for rank in range(RANKS + 1) if job[f"heard-{rank}"]]
    assert told == [rank for rank in range(RANKS + 1) if rank != victim]


@pytest.mark.parametrize("cold", [0, 2], ids=["spawned", "cold"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_takes_the_place_of_a_rank_that_died(victim: int, cold: int) -> None:
    job = run(work, ranks=RANKS + cold, victim=victim, more=20, cold=cold, timeout_s=60)
    ends = {rank: job[f"end-{rank}"] for rank in range(RANKS + 1)}
    assert not ends.pop(victim)
    known = [next(iter(end.values())) for end in ends.values()]
    assert len({tuple(ranks) for ranks, _, _ in known}) == 1
    assert set(known[0][0]) == {0, 1, 2, 3} - {victim}
    assert len({done for _, done, _ in known}) == 1
    assert len({pid for _, _, pid in known}) == RANKS
    (alone,) = job["alone-3"].values()
    assert alone == [1, False]
    assert bool(job["over-4"]) == bool(cold)
    # The one that waits still is the next.
    assert list(job["expected"]) == ([4] if cold else [])
