"""Ranks in reserve take the places of the dead, within the operation in which they died."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import ft
from tests.fault.programs import (
    begin,
    end_by,
    mark,
    once_in_call,
    seen,
    share,
    total,
    wait_for,
)
from tests.fault.ranks import Job, run

Plan = dict[int, dict[str, Any]]


def work(working: int, steps: int, plan: dict[int, dict], rounds: int) -> None:
    """Make *rounds* times *steps* sums on *working* ranks; the others wait.

    What is known of the sums goes to whoever joins. ``plan[rank]``: ``step`` and ``phase``, where
    this rank ends by SIGKILL.
    """
    import time

    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    fault = {"step": -1, "phase": "", **plan.get(rank, {})}
    sums: list[int] = []
    sizes: list[int] = []
    recoveries: list[Any] = []

    def reached(phase: str) -> bool:
        return (fault["phase"], fault["step"]) == (phase, len(sums))

    def strike() -> None:
        end_by("SIGKILL")

    class Observed(ft.Hooks):
        def recovery_point(self) -> None:
            if reached("recovery") or (
                fault["phase"] == "recovery" and communicator.world.is_spare
            ):
                strike()

        def recovered(self, r: ft.Recovery) -> None:
            recoveries.append([sorted(m.rank for m in r.lost), r.replaced])

    clocks, waits = [], []

    def idle() -> None:
        clocks.append((time.monotonic(), time.process_time()))
        if len(clocks) == 100:
            mark("looked")
        if fault["phase"] == "waiting" and seen(f"step-{fault['step']}", 0):
            strike()

    def tell(joined: list[int]) -> None:
        """Tell the ranks that join the sums so far."""
        known = [r for r in communicator.world.ranks if r not in joined]
        state = np.array([len(sums), *sums, *[0] * (rounds * steps - len(sums))])
        if reached("telling") and rank not in joined:
            once_in_call(strike, where=("ft/collectives.py",))
        if reached("pause-telling"):
            wait_for(lambda: seen("dying", fault["for"]))
        communicator.broadcast(state, sources=known)
        sums[:] = state[1 : 1 + state[0]].tolist()

    def welcome(replaced: tuple[tuple[int, int], ...]) -> None:
        while replaced := replaced or communicator.fill():
            tell([spare for _, spare in replaced])
            replaced = ()

    communicator = begin()
    communicator.attach(Observed())
    for this_round in range(rounds):
        end = (this_round + 1) * steps
        joined = True
        if not communicator.set_aside(working):
            clocks.clear()
            called = communicator.wait(idle)
            if clocks:  # a call back may come before the first look
                ends = zip(clocks[0], clocks[-1], strict=True)
                waits.append([last - first for first, last in ends])
                mark("waits", waits)
            joined = called.agreed_purpose == ft.Purpose.FILL
            tell([r for r in called.after.ranks if r not in called.before.ranks])
        while joined and len(sums) < end:
            welcome(())
            mark(f"step-{len(sums)}")
            if reached("before"):
                wait_for(lambda: seen(f"step-{len(sums)}", min(communicator.world.ranks)))
                strike()
            if reached("in-call"):
                once_in_call(strike, where=("ft/collectives.py",))
            if reached("until-looked"):
                wait_for(lambda: seen("looked", fault["for"]))
            if fault["phase"] == "pause" and reached("pause"):
                wait_for(lambda: seen("dying", fault["for"]))
            received = np.empty(1, np.int64)
            while True:
                try:
                    mine = share(communicator.pending, rank, len(sums))
                    communicator.allreduce(np.array([mine]), received)
                    break
                except ft.PeerFailure:
                    recovery = communicator.recover(joinable=True)
                    if recovery.finished:
                        break
                    welcome(recovery.replaced)
            sums.append(int(received[0]))
            sizes.append(communicator.world.size)
        if joined:
            workers = communicator.world.ranks
            waiting = [m.rank for m in communicator.world.spares]
            communicator.call_back()
            if waiting:
                tell([r for r in communicator.world.ranks if r not in workers])
    mark("sums", sums)
    mark("sizes", sizes)
    mark("recoveries", recoveries)
    mark("world", communicator.world.ranks)


STEPS = 6


def run_with(plan: Plan, *, ranks: int, working: int, rounds: int = 1) -> Job:
    """Run it and check everything that must hold whoever died when."""
    job = run(work, ranks=ranks, working=working, steps=STEPS, plan=plan, rounds=rounds)
    dying = set(job["dying"])
    assert dying == {rank for rank, fault in plan.items() if "for" not in fault}, job.output
    survivors = set(range(ranks)) - dying
    assert survivors == job.ended, job.output
    wanted = [total(step) for step in range(rounds * STEPS)]
    for rank in survivors:
        assert job["sums"][rank] == wanted
        assert set(job["world"][rank]) == survivors
    return job


def at(step: int, phase: str = "before") -> dict[str, Any]:
    return {"step": step, "phase": phase}


def test_a_spare_waits_at_no_cost_and_comes_back_when_nobody_dies() -> None:
    plan = {0: {"step": 1, "phase": "until-looked", "for": 2}}
    job = run_with(plan, ranks=3, working=2, rounds=2)
    assert job["sizes"] == {0: [2] * 12, 1: [2] * 12, 2: []}
    waited_s, busy_s = job["waits"][2][0]
    assert busy_s < 0.2 * waited_s


def test_leaders_are_replaced_within_the_operation_until_spares_run_out() -> None:
    job = run_with({0: at(1), 1: at(4)}, ranks=4, working=3)
    assert job["sizes"][2] == [3, 3, 3, 3, 2, 2]
    assert job["sizes"][3] == [3, 3, 3, 2, 2]  # from the operation on in which rank 0 died
    assert job["recoveries"][2] == [[[0], [[0, 3]]], [[1], []]]


def test_two_die_at_once_and_one_spare_is_left() -> None:
    job = run_with({1: at(2), 2: at(2)}, ranks=5, working=4)
    assert job["sizes"][0] == [4, 4, 3, 3, 3, 3]
    # The spare takes the place of whose death is noticed first: the lower one's, of both.
    ((dead, spare),) = [pair for _, pairs in job["recoveries"][0] for pair in pairs]
    assert dead in (1, 2) and spare == 4


def test_a_rank_dies_inside_the_operation_and_another_is_late() -> None:
    # Some may have completed it: then the place is filled before the next one.
    plan: Plan = {1: at(2, "in-call"), 2: {"step": 2, "phase": "pause", "for": 1}}
    job = run_with(plan, ranks=4, working=3)
    assert job["sizes"][0][3:] == [3] * (STEPS - 3)


def test_a_spare_dies_while_it_waits_and_nobody_is_disturbed() -> None:
    job = run_with({2: at(2, "waiting"), 1: at(4)}, ranks=3, working=2)
    assert job["sizes"][0] == [2, 2, 2, 2, 1, 1]
    assert job["recoveries"][0] == [[[1], []]]


def test_the_chosen_spare_and_the_leader_die_in_the_recovery_and_the_next_ones_come() -> None:
    plan = {1: at(2), 3: at(-1, "recovery"), 0: at(2, "recovery")}
    job = run_with(plan, ranks=6, working=3)
    assert job["sizes"][2] == [3] * STEPS
    assert {pair[1] for _, pairs in job["recoveries"][2] for pair in pairs} == {4, 5}


def test_the_leader_dies_while_it_tells_the_newcomer() -> None:
    pause = {"step": 2, "phase": "pause-telling", "for": 0}
    job = run_with({1: at(2), 0: at(2, "telling"), 2: pause}, ranks=4, working=3)
    assert job["sizes"][2][2:] == [2] * (STEPS - 2)


def ahead() -> None:
    """Rank 1 dies in an operation that rank 0 has completed, and rank 2 has not."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    communicator = begin()
    if not communicator.set_aside(3):
        assert communicator.wait().agreed_purpose == ft.Purpose.FILL
    else:
        if rank == 1:
            end_by("SIGKILL")
        result = np.array([7 if rank == 0 else 0])
        try:
            communicator.attempt(result, lambda handle: rank == 0 or handle.Barrier())
        except ft.PeerFailure:
            assert communicator.recover().finished
        mark("at once", communicator.fill())  # rank 0 knows of no death yet
        communicator.barrier()
        mark("later", communicator.fill())
        mark("result", result.tolist())
    communicator.barrier()
    mark("world", communicator.world.ranks)


def test_a_place_is_filled_later_where_others_are_in_the_next_operation() -> None:
    job = run(ahead, ranks=4)
    assert job["at once"] == {0: [], 2: []}
    assert job["later"] == {0: [[1, 3]], 2: [[1, 3]]}
    assert job["result"] == {0: [7], 2: [7]}
    assert job["world"] == {rank: [0, 2, 3] for rank in (0, 2, 3)}
    assert job.ended == {0, 2, 3}


def resized(size: int) -> None:
    """Death of one of two members, whose place is vacant when *size* places are wanted."""
    communicator = begin()
    rank = communicator.world.rank
    if not communicator.set_aside(2):
        communicator.wait()
    else:
        if rank == 1:
            end_by("SIGKILL")
        communicator.barrier()
        communicator.set_places(size)
        mark("vacant", communicator.vacancies)
        mark("filled", communicator.fill())
        if size == 1:
            communicator.call_back()
    communicator.barrier()
    mark("world", communicator.world.ranks)


@pytest.mark.parametrize(
    ("size", "filled", "world"),
    [(1, [], [0, 2, 3]), (2, [[1, 2]], [0, 2]), (3, [[1, 2], [3, 3]], [0, 2, 3])],
)
def test_places_are_as_many_as_are_wanted(
    size: int, filled: list[list[int]], world: list[int]
) -> None:
    job = run(resized, ranks=4 if size != 2 else 3, size=size)
    assert job["vacant"] == {0: len(filled)}
    assert job["filled"] == {0: filled}
    assert job["world"] == {rank: world for rank in world}


def deserted() -> None:
    """Rank 1 comes to its end while rank 0 still works, and a spare waits."""
    communicator = begin()
    ft.on_fail_stop(lambda reason: mark("dying", reason))
    if communicator.set_aside(2) and communicator.world.rank == 1:
        communicator.call_back(closing=True)
        return
    joined = communicator.world.is_spare and communicator.wait().agreed_purpose == ft.Purpose.FILL
    while not joined and not (joined := bool(communicator.fill())):
        communicator.barrier()
    communicator.barrier()
    mark("world", communicator.world.ranks)


def test_a_rank_that_leaves_too_early_is_left_behind_and_replaced() -> None:
    job = run(deserted, ranks=3)
    (reason,) = job["dying"].values()
    assert "called back while others still work: they go on without it" in reason
    assert job["world"] == {rank: [0, 2] for rank in (0, 2)}
    assert job.ended == {0, 2}


def test_when_all_who_work_die_those_in_reserve_end_and_say_so() -> None:
    plan: Plan = {0: at(2), 1: at(2)}
    job = run(work, ranks=4, working=2, steps=STEPS, plan=plan, rounds=1)
    assert set(job["dying"]) == {0, 1}
    assert job.ended == set()
    assert "nothing to go on from" in job.output
