"""Ranks die in and between collectives and inside the repair; the others finish rightly."""

from __future__ import annotations

import os
import platform
import random
import signal
import threading
from typing import Any

import numpy as np
import pytest

import ft
from tests.fault.programs import (
    add,
    begin,
    end_by,
    end_on_entering,
    mark,
    once_in_call,
    seen,
    total,
    wait_for,
)
from tests.fault.ranks import Job, run

COLLECTIVES = ("allreduce", "broadcast", "allgather", "barrier", "agree")

in_machine_code = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the breakpoint is one of x86-64"
)

Plan = dict[int, dict[str, Any]]


def lose(kinds: list[str], plan: dict[int, dict], holds: dict[int, tuple[int, int]]) -> None:
    """Make one operation of each kind, and end as *plan* says for this rank.

    ``plan[rank]``: ``at``, the operation's number, ``phase``, and ``how`` (see ``end_by``). The
    operation after the last is the leaving. ``holds[rank] = (operation, other)``: enter that
    operation only when *other* is about to die.
    """
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    fault = {"at": -1, "phase": "", "how": "", "pass": 1, **plan.get(rank, {})}
    passes, results, recoveries = [], [], []

    def reached(phase: str, operation: int) -> bool:
        return (fault["at"], fault["phase"]) == (operation, phase)

    def strike() -> None:
        end_by(fault["how"])

    class Observed(ft.Hooks):
        def recovery_point(self) -> None:
            if fault["phase"] == "recovery" and communicator.done >= fault["at"]:
                passes.append(None)
                if len(passes) == fault["pass"]:
                    strike()

        def recovered(self, r: ft.Recovery) -> None:
            recoveries.append([sorted(m.rank for m in r.lost), r.repair_s])

    if fault["phase"] == "start":
        once_in_call(strike)
    communicator = begin()
    communicator.attach(Observed())
    mark("members", communicator.world.ranks)
    for operation, kind in enumerate([*kinds, "leave"]):
        if reached("before", operation):
            strike()
        if reached("making", operation):
            end_on_entering("ompi_comm_activate")
        if reached("in-call", operation):
            # A strike that comes late must not fall into the leaving, which is tested by itself.
            inside = (
                ("ft/repair.py", "ft/operations.py") if kind == "leave" else ("ft/collectives.py",)
            )
            once_in_call(strike, where=inside)
        if reached("finalize", operation):
            once_in_call(strike, where=("ft/mpi.py",))
        if holds.get(rank, (-1, -1))[0] == operation:
            wait_for(lambda: seen("dying", holds[rank][1]))
        mine = operation * 100 + rank
        if kind == "allreduce":
            results.append(add(communicator, operation))
        elif kind == "broadcast":
            buffer = np.full(3, mine)
            communicator.broadcast(buffer)
            results.append(buffer.tolist())
        elif kind == "allgather":
            gathered = communicator.allgather(np.array([mine, -mine]))
            results.append([gathered.ranks, gathered.rows.tolist()])
        elif kind == "barrier":
            results.append(communicator.barrier())
        elif kind == "agree":
            results.append(communicator.agree(operation % 2 == 0))
        else:
            mark("results", results)
            mark("done", communicator.done)
            communicator.leave()
            mark("recoveries", recoveries)
            mark("world", communicator.world.ranks)
        if reached("after", operation):
            strike()


def lose_some(kinds: list[str], plan: Plan, *, ranks: int = 4, **holds: Any) -> Job:
    """Run it and check everything that must hold whoever died when."""
    job = run(lose, ranks=ranks, kinds=kinds, plan=plan, holds=holds.get("holds", {}))
    dying = set(job["dying"])
    survivors = set(range(ranks)) - dying
    assert survivors == job.ended - dying, job.output
    first = min(survivors)
    for rank in survivors:
        for name in ("results", "world"):
            assert job[name][rank] == job[name][first], name
        assert job["done"][rank] == len(kinds)
        # Who died while all met is a member that was lost to some, and none to others.
        members, world = set(job["members"][rank]), set(job["world"][rank])
        assert members >= world >= survivors
        assert sorted(r for some in lost(job, rank) for r in some) == sorted(members - world)
        assert all(0 <= repair_s < 30 for _, repair_s in job["recoveries"][rank])
    for operation, (kind, result) in enumerate(zip(kinds, job["results"][first], strict=True)):
        check(kind, operation, result, survivors)
    return job


def lost(job: Job, rank: int) -> list[list[int]]:
    """Whom *rank* lost in each of its recoveries that lost somebody."""
    return [ranks for ranks, _ in job["recoveries"][rank] if ranks]


def check(kind: str, operation: int, result: Any, survivors: set[int]) -> None:
    if kind == "allreduce":
        assert result == total(operation)
    elif kind == "broadcast":
        assert len(set(result)) == 1, result
        assert result[0] // 100 == operation, result
    elif kind == "allgather":
        ranks, rows = result
        assert set(ranks) >= survivors
        assert rows == [[operation * 100 + r, -operation * 100 - r] for r in ranks]
    elif kind == "agree":
        assert result == (operation % 2 == 0)
    else:
        assert result is None


def killed(at: int, phase: str = "before", **more: Any) -> dict[str, Any]:
    return {"at": at, "phase": phase, "how": "SIGKILL", **more}


@pytest.mark.parametrize("victims", [(1, 2), (0, 3)])
def test_two_ranks_die_in_one_operation(victims: tuple[int, int]) -> None:
    job = lose_some(["allreduce"] * 5, {rank: killed(2) for rank in victims})
    assert set(job["dying"]) == set(victims)


def test_three_of_four_die_at_different_operations() -> None:
    plan = {0: killed(1), 3: killed(3, "after"), 1: killed(6)}
    job = lose_some(["allreduce"] * 8, plan)
    assert job.ended == {2}
    assert job["world"][2] == [2]
    assert lost(job, 2) == [[0], [3], [1]]


@pytest.mark.parametrize("kind", ["allreduce", "allgather"])
@pytest.mark.parametrize("second", [0, 3])
def test_a_second_rank_dies_inside_the_recovery(second: int, kind: str) -> None:
    job = lose_some([kind] * 4, {1: killed(2), second: killed(0, "recovery")})
    assert set(job["dying"]) == {1, second}
    assert lost(job, 2) == [sorted((1, second))]


def test_a_third_rank_dies_in_the_second_pass_of_the_same_recovery() -> None:
    plan = {1: killed(2), 0: killed(0, "recovery"), 3: killed(0, "recovery", **{"pass": 2})}
    job = lose_some(["allreduce"] * 4, plan)
    assert job.ended == {2}
    assert lost(job, 2) == [[0, 1, 3]]


@in_machine_code
def test_a_rank_dies_while_the_repair_makes_the_new_communicator() -> None:
    job = lose_some(["allreduce"] * 3, {3: killed(1), 2: {"at": 1, "phase": "making"}})
    assert job.ended == {0, 1}
    assert sorted(rank for some in lost(job, 0) for rank in some) == [2, 3]


def test_a_bug_inside_the_recovery_ends_only_its_rank() -> None:
    plan = {1: killed(2), 3: {"at": 0, "phase": "recovery", "how": "uncaught exception"}}
    assert lose_some(["allreduce"] * 4, plan).ended == {0, 2}


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_rank_dies_while_all_but_one_are_inside(kind: str, victim: int) -> None:
    kinds = ["barrier", kind, "allreduce"]
    job = lose_some(kinds, {victim: killed(1, "in-call")}, ranks=3, holds={1: (1, victim)})
    assert job.ended == {0, 1, 2} - {victim}
    if kind == "broadcast":
        assert job["results"][1][1][0] == 100 + min(job.ended)


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_rank_dies_just_before_or_after(kind: str, phase: str) -> None:
    assert lose_some([kind] * 3, {0: killed(1, phase)}, ranks=3).ended == {1, 2}


@pytest.mark.parametrize("phase", ["before", "in-call", "finalize", "after"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_dies_while_the_ranks_leave(victim: int, phase: str) -> None:
    # All others: one that left already would revoke the operation that the victim may still be in.
    others = {0, 1, 2} - {victim}
    holds = dict.fromkeys(others, (1, victim)) if phase == "in-call" else {}
    job = lose_some(["allreduce"], {victim: killed(1, phase)}, ranks=3, holds=holds)
    assert job.ended >= others


@in_machine_code
@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_dies_in_the_shrink_of_finalize(victim: int) -> None:
    assert lose_some(["allreduce"], {victim: {"at": 1, "phase": "making"}}, ranks=3).ended >= (
        {0, 1, 2} - {victim}
    )


def test_a_rank_that_dies_before_it_meets_the_others_is_no_member() -> None:
    job = run(start_without_one, ranks=3)
    assert job.ended == {0, 2}
    assert job["members"] == {0: [0, 2], 2: [0, 2]}


def start_without_one() -> None:
    from ft import mpi

    if mpi.load().COMM_WORLD.Get_rank() == 1:
        end_by("SIGKILL")
    wait_for(lambda: seen("dying", 1))
    communicator = begin()
    add(communicator, 0)
    mark("members", communicator.world.ranks)


def torn(size: int, most_bytes: int) -> None:
    ft.pieces._MOST_BYTES = most_bytes
    communicator = begin()
    rank, leader = communicator.world.rank, communicator.world.members[0]
    buffer = np.full(size, rank + 1)

    def end_leader_in_the_middle() -> None:
        wait_for(lambda: buffer[size // 1000] == leader.rank + 1)
        os.kill(leader.pid, signal.SIGKILL)

    communicator.barrier()
    if rank == 1:
        threading.Thread(target=end_leader_in_the_middle, daemon=True).start()
    communicator.broadcast(buffer)
    mark("content", np.unique(buffer).tolist())


@pytest.mark.parametrize("most_bytes", [1 << 30, 1 << 20], ids=["in one call", "in 77 calls"])
def test_a_broadcast_is_not_torn_when_the_leader_dies_in_the_middle(most_bytes: int) -> None:
    # Shared memory moves a message in one piece; between hosts it goes in many.
    tcp = {"OMPI_MCA_btl": "^sm"}
    job = run(torn, ranks=3, environment=tcp, size=10_000_000, most_bytes=most_bytes)
    assert job.ended == {1, 2}
    assert job["content"] in ({1: [1], 2: [1]}, {1: [2], 2: [2]})


# ---------------------------------------------------------------- chance

PHASES = ("before", "in-call", "after", "recovery", "start")
HOW = (
    "SIGKILL",
    "SIGKILL",
    "SIGSEGV",
    "SIGTERM",
    "os._exit(0)",
    "sys.exit(1)",
    "uncaught exception",
)


def chance(seed: int, *, ranks: int = 4, operations: int = 12) -> tuple[list[str], Plan]:
    """Some kinds of operations, and 1 to all but one ranks that die somewhere in them."""
    dice = random.Random(seed)
    kinds = [dice.choice((*COLLECTIVES, "allreduce", "allreduce")) for _ in range(operations)]
    plan: Plan = {}
    for rank in dice.sample(range(ranks), dice.randint(1, ranks - 1)):
        phase = dice.choice(PHASES)
        # A thread does the rest, and its exit would end only itself.
        how = "SIGKILL" if phase in ("in-call", "start") else dice.choice(HOW)
        plan[rank] = {"at": dice.randrange(operations + 1), "phase": phase, "how": how}
    return kinds, plan


@pytest.mark.parametrize("seed", range(12))
def test_random_deaths_leave_right_sums(seed: int) -> None:
    kinds, plan = chance(seed)
    lose_some(kinds, plan)
