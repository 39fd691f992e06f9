"""The chaos suite: plans are functions of their seed, and its judges see each kind of wrong."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ft

CI = Path(__file__).resolve().parents[2] / "ci"


@pytest.fixture(scope="module")
def suite() -> Iterator[dict[str, ModuleType]]:
    """The modules of ci/chaos.py, which are scripts' neighbours and in no package."""
    sys.path.insert(0, str(CI))
    try:
        yield {name: importlib.import_module(f"chaos_{name}") for name in ("plan", "ft", "full")}
    finally:
        sys.path.remove(str(CI))


def test_plans_are_functions_of_their_seed_and_leave_somebody(
    suite: dict[str, ModuleType],
) -> None:
    sizes, phases, kinds, set_aside = set(), set(), set(), 0
    for seed in range(300):
        plan = suite["plan"].draw_launch(seed)
        assert plan == suite["plan"].draw_launch(seed)
        faults = [ft.parse_fault(text) for text in plan.faults]
        ft.check_faults(faults, ranks=plan.ranks)
        assert plan.guard not in {rank for fault in faults for rank in fault.ranks}
        assert all(working == 0 or working > plan.guard for working in plan.working)
        set_aside += any(plan.working)
        sizes.add(plan.ranks)
        phases |= {fault.at for fault in faults}
        kinds |= {fault.kind for fault in faults}
        training = suite["plan"].draw_training(seed)
        ft.check_faults([ft.parse_fault(text) for text in training.faults], ranks=training.ranks)
    assert sizes == set(range(2, 17))
    assert 150 < set_aside < 250
    assert phases >= {"", "compute", "in-exchange", "recovery", "checkpoint", "validation"}
    assert kinds == {"kill", "segv", "exit", "raise", "stop", "hang"}


Logs = dict[int, list[dict[str, Any]]]


def launch(suite: dict[str, ModuleType]) -> tuple[Any, Logs]:
    """Two runs of one operation each on three ranks; rank 1 is killed in the second."""
    plan = suite["plan"].LaunchPlan(
        seed=0, ranks=3, runs=((("barrier", 1),), (("agree", 1),)), working=(2, 0),
        faults=("kill:rank=1,step=1",),
    )  # fmt: skip

    def finished(run: int, world: list[int]) -> dict[str, Any]:
        digest = {"digest": "ab", "wrong": [], "done": run + 1}
        return {"what": "run", "run": run, "world": world, **digest}

    everybody, survivors = [0, 1, 2], [0, 2]
    logs: Logs = {
        rank: [
            {"what": "start", "segments": []},
            finished(0, everybody),
            {"what": "recovered", "lost": [1], "repair_s": 0.5, "step": 1, "generation": 3},
            finished(1, survivors),
            {"what": "end"},
        ]
        for rank in survivors
    }
    struck = {"what": "fault", "fault": "kill:rank=1,step=1", "step": 1}
    logs[1] = [finished(0, everybody), struck, {"what": "joined", "step": 0}]
    return plan, logs


def verdicts(suite: dict[str, ModuleType], plan: Any, logs: Logs, problem: str = "") -> list[Any]:
    return list(suite["ft"].judge(plan, logs, problem=problem, seconds=2.0, output=""))


def test_a_right_launch_is_right(suite: dict[str, ModuleType]) -> None:
    first, second = verdicts(suite, *launch(suite))
    assert (first.wrong, second.wrong) == ("", "")
    assert (first.ranks, second.ranks) == ((3, 3), (3, 2))
    assert (first.repairs_s, second.repairs_s) == ([], [0.5])
    assert (first.kinds, second.kinds) == ([], ["kill"])
    assert (first.joined, second.joined) == (1, 0)
    assert "3 ranks (1 aside)" in first.title


def test_each_wrong_is_seen(suite: dict[str, ModuleType]) -> None:
    def wrong_of(change: Any) -> list[str]:
        plan, logs = launch(suite)
        change(logs)
        return [verdict.wrong for verdict in verdicts(suite, plan, logs)]

    assert "rank 2, which no fault struck" in wrong_of(lambda logs: logs[2].pop())[0]
    assert wrong_of(lambda logs: logs[2].pop(3))[1] == "rank 2 did not finish"
    assert "results differ" in wrong_of(lambda logs: logs[2][3].update(digest="cd"))[1]
    assert wrong_of(lambda logs: logs[0][1].update(wrong=["sums"]))[0] == "rank 0: sums"
    assert wrong_of(lambda logs: logs[1][0].update(wrong=["sums"]))[0] == "rank 1: sums"
    assert "different numbers" in wrong_of(lambda logs: logs[0][3].update(done=5))[1]
    segments = wrong_of(lambda logs: logs[0][0].update(segments=[__file__]))
    assert "shared memory left behind" in segments[0]
    plan, logs = launch(suite)
    assert {v.wrong for v in verdicts(suite, plan, logs, "no end")} == {"no end"}


GOOD = {
    "status": "finished", "reason": None, "world_size_end": 2, "samples_lost": 0,
    "samples_repeated": 0, "samples_used": 64, "samples_expected": 64,
    "weights_hash": {"0": "ab", "2": "ab"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"status": "failed", "reason": "x"}, "failed: x"),
        ({"world_size_end": 3}, "3 ranks at the end"),
        ({"weights_hash": {"0": "ab", "2": "cd"}}, "2 hashes"),
        ({"samples_lost": 4}, "samples_lost is 4"),
        ({"samples_repeated": 4}, "samples_repeated is 4"),
        ({"samples_used": 60}, "60 samples of 64"),
    ],
)
def test_a_training_is_judged(
    suite: dict[str, ModuleType], change: dict[str, Any], said: str
) -> None:
    judge = suite["full"].judge
    given = {"status": 0, "ranks": 3, "lost": 1}
    found = judge({**GOOD, **change}, [0.5], [0.7, 0.5], **given)
    assert (found == "") == (said == "")
    assert said in found
    assert "losses" in judge(GOOD, [0.501], [0.7, 0.5], **given)
    assert "losses" in judge(GOOD, [float("nan")], [0.7, 0.5], **given)
    assert judge(GOOD, [0.5], [0.5], status=-1, ranks=3, lost=1)
