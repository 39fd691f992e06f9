"""The chaos suite: plans are functions of their seed, and its judges see each kind of wrong."""

from __future__ import annotations

import copy
import dataclasses
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ft
from ci.chaos.ft import launch as ft_launch
from ci.chaos.ft import plan as ft_plan
from ci.chaos.strategies import plan as moves_plan
from ci.chaos.training import judge as training_judge
from ci.chaos.training import launch as training_launch
from ci.chaos.training import options as training_options
from ci.chaos.training import plan as training_plan
from matex.cli import main


def test_plans_are_functions_of_their_seed_and_leave_somebody() -> None:
    sizes, phases, struck, kinds, set_aside = set(), set(), set(), set(), 0
    for seed in range(300):
        plan = ft_plan.draw_launch(seed)
        assert plan == ft_plan.draw_launch(seed)
        faults = [ft.parse_fault(text) for text in plan.faults]
        ft.check_faults(faults, ranks=plan.ranks)
        assert plan.guard not in {rank for fault in faults for rank in fault.ranks}
        assert all(working == 0 or working > plan.guard for working in plan.working)
        set_aside += any(plan.working)
        sizes.add(plan.ranks)
        phases |= {fault.at for fault in faults}
        kinds |= {fault.kind for fault in faults}
        trained = training_plan.draw_training(seed)
        assert trained == training_plan.draw_training(seed)
        for start in trained.starts:
            planned = [ft.parse_fault(text) for text in start.faults]
            struck |= {fault.at for fault in planned}
            ft.check_faults(planned, ranks=start.ranks + start.spares)
            assert all(f.step < 16 * len(trained.trainings) + 1 for f in planned)
    assert sizes == set(range(2, 17))
    assert 150 < set_aside < 250
    assert phases >= {"", "compute", "in-exchange", "recovery", "checkpoint", "validation"}
    assert struck >= phases - {""} | {"after-exchange", "in-strategy", "in-consensus"}
    assert kinds == {"kill", "segv", "exit", "raise", "stop", "hang"}


def test_vectors_are_moved_by_every_strategy_and_struck_between_any_two_messages() -> None:
    ways, phases, late = set(), set(), 0
    for seed in range(200):
        plan = moves_plan.draw_moves(seed)
        assert plan == moves_plan.draw_moves(seed)
        faults = [ft.parse_fault(text) for text in plan.faults]
        ft.check_faults(faults, ranks=plan.ranks)
        assert plan.guard not in {rank for fault in faults for rank in fault.ranks}
        assert len(plan.ways) == len(plan.sizes) == len(plan.runs) == len(plan.working)
        assert len(plan.moments) == plan.ranks
        for cut in plan.cuts:
            assert cut.victim not in cut.late
            where = f"rank={cut.victim},step={cut.step},at={cut.phase}"
            assert any(text.endswith(where) for text in plan.faults)
            late += len(cut.late)
        ways |= {way.partition(" --sync-every")[0] for way in plan.ways}
        phases |= {fault.at for fault in faults}
        ends = [sum(len(run) for run in plan.runs[: n + 1]) for n in range(len(plan.runs))]
        starts = [0, *ends[:-1]]
        every = moves_plan.MEET_EVERY
        meetings = {
            min(start + k, end) - 1
            for start, end in zip(starts, ends, strict=True)
            for k in range(every, end - start + every, every)
        }
        assert all(fault.step in meetings for fault in faults if fault.at == "in-consensus")
    assert late > 100
    assert ways == {words for words, _ in training_options.STRATEGIES}
    assert phases >= {"compute", "in-exchange", "in-strategy", "in-consensus", "recovery"}


def test_half_of_the_trainings_go_by_a_strategy_and_each_way_is_one_that_matex_takes() -> None:
    plans = [training_plan.draw_training(seed) for seed in range(300)]
    starts = [start for plan in plans for start in plan.starts]
    diverging = [start for start in starts if training_options.strategy_of(start.way) != "sync"]
    assert 0.4 < len(diverging) / len(starts) < 0.6
    drawn = {" ".join(training_options.draw_way(random.Random(seed))) for seed in range(2000)}
    for words, every in training_options.STRATEGIES:
        assert any(words in way for way in drawn)
        assert all(any(words in way and f"--sync-every {e}" in way for way in drawn) for e in every)
    words = {
        (*start.way, *plan.options, *(("--spares", "1") if start.spares else ()))
        for plan in plans
        for start in plan.starts
    }
    assert len(words) > 50
    for options in words:
        assert main(["run", "-n", "2", "--dry-run", *options, __file__]) == 0
    saved = [plan.starts for plan in plans if len(plan.starts) == 2]
    changed = [
        (training_options.strategy_of(a.way), training_options.strategy_of(b.way)) for a, b in saved
    ]
    assert {before == after for before, after in changed} == {True, False}


def test_bits_are_tried_on_one_to_eight_ranks_with_noise_and_with_other_ranks_afterwards() -> None:
    plans = [training_plan.draw_training(seed, bits=True) for seed in range(200)]
    starts = [start for plan in plans for start in plan.starts]
    assert {start.ranks for start in starts} == {1, 2, 3, 4, 5, 7, 8}
    assert {start.way for start in starts} == {(), ("--balance",)}
    assert all(plan.options[-3:-1] == ("--deterministic", "--virtual") for plan in plans)
    models = [training.split(",")[0] for plan in plans for training in plan.trainings]
    assert {*training_plan.NOISY, *training_plan.MODELS} == set(models)
    again = [plan.starts for plan in plans if len(plan.starts) == 2]
    assert any(first.ranks != second.ranks for first, second in again)
    options = ("run", "-n", "2", "--dry-run", "--balance", *plans[0].options, __file__)
    assert main(list(options)) == 0


Logs = dict[int, list[dict[str, Any]]]


def launch() -> tuple[Any, Logs]:
    """Two runs of one operation each on three ranks; rank 1 is killed in the second."""
    plan = ft_plan.LaunchPlan(
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


def verdicts(plan: Any, logs: Logs, problem: str = "") -> list[Any]:
    return list(ft_launch.judge(plan, logs, problem=problem, seconds=2.0, output=""))


def test_a_right_launch_is_right() -> None:
    first, second = verdicts(*launch())
    assert (first.wrong, second.wrong) == ("", "")
    assert (first.ranks, second.ranks) == ((3, 3), (3, 2))
    assert (first.repairs_s, second.repairs_s) == ([], [0.5])
    assert (first.kinds, second.kinds) == ([], ["kill"])
    assert (first.joined, second.joined) == (1, 0)
    assert "3 ranks (1 aside)" in first.title


def test_each_wrong_is_seen() -> None:
    def wrong_of(change: Any) -> list[str]:
        plan, logs = launch()
        change(logs)
        return [verdict.wrong for verdict in verdicts(plan, logs)]

    assert "rank 2, which no fault struck" in wrong_of(lambda logs: logs[2].pop())[0]
    assert wrong_of(lambda logs: logs[2].pop(3))[1] == "rank 2 did not finish"
    assert "results differ" in wrong_of(lambda logs: logs[2][3].update(digest="cd"))[1]
    assert wrong_of(lambda logs: logs[0][1].update(wrong=["sums"]))[0] == "rank 0: sums"
    assert wrong_of(lambda logs: logs[1][0].update(wrong=["sums"]))[0] == "rank 1: sums"
    assert "different numbers" in wrong_of(lambda logs: logs[0][3].update(done=5))[1]
    segments = wrong_of(lambda logs: logs[0][0].update(segments=[__file__]))
    assert "shared memory left behind" in segments[0]
    plan, logs = launch()
    assert {v.wrong for v in verdicts(plan, logs, "no end")} == {"no end"}


GOOD = {
    "status": "finished", "reason": None, "world_size_end": 2, "samples_lost": 0,
    "samples_repeated": 0, "samples_used": 64, "samples_expected": 64,
    "weights_hash": {"0": "ab", "3": "ab"}, "spares": 2, "spares_used": 1, "spares_lost": 1,
    "strategy": "sync",
    "faults": [
        {"rank": 2, "kind": "kill", "step": 0, "at": "compute", "overcome": None, "repair_s": None},
        {"rank": 1, "kind": "segv", "step": 20, "at": "compute", "overcome": "in-place",
         "repair_s": 0.2},
    ],
}  # fmt: skip
PLANNED = ("kill:rank=2,step=0", "segv:rank=1,step=20", "nan:rank=2,step=30")


def fired(text: str, rank: int, step: int) -> dict[str, Any]:
    kind = text.partition(":")[0]
    what = {"event": "fault", "kind": kind, "at": "compute", "lethal": kind != "nan"}
    return {**what, "fault": text, "rank": rank, "step": step}


def training() -> tuple[Any, Any]:
    """Two trainings on two ranks and two spares: 2 dies waiting, and 3 takes the place of 1."""
    plan = training_plan.TrainPlan(
        seed=0, trainings=("plain,sgd,no", "plain,sgd,yes"), options=(), checkpoint=False,
        starts=(training_plan.Start(ranks=2, spares=2, faults=PLANNED),),
    )  # fmt: skip

    def epoch(rank: int, step: int, **losses: float) -> dict[str, Any]:
        return {"event": "epoch", "rank": rank, "step": step, "replica": 5.0, **losses}

    events = [
        {"event": "waits", "rank": 2, "step": 0},
        {"event": "waits", "rank": 3, "step": 0},
        fired(PLANNED[0], 2, 0),
        *(epoch(rank, step, loss=0.7) for step in (8, 16) for rank in (0, 1)),
        {"event": "waits", "rank": 3, "step": 16},
        fired(PLANNED[1], 1, 20),
        {"event": "recovered", "rank": 0, "step": 20, "joined": {"1": 3}},
        *(epoch(rank, step, loss=0.6, val_loss=0.65) for step in (24, 32) for rank in (0, 3)),
        {"event": "fault-not-fired", "rank": 0, "fault": PLANNED[2]},
    ]
    outcome = training_launch.Outcome(
        status=0, output="", events=events, summary=copy.deepcopy(GOOD)
    )
    return plan, outcome


ALONE = {"plain,sgd,no": [(0.7,), (0.7,)], "plain,sgd,yes": [(0.6, 0.65), (0.6, 0.65)]}


def trained(plan: Any, *outcomes: Any) -> list[Any]:
    return list(training_judge.verdicts(plan, list(outcomes), ALONE, seconds=2.0))


def test_a_right_launch_of_trainings_is_right() -> None:
    first, second = trained(*training())
    assert (first.wrong, second.wrong) == ("", "")
    assert (first.kinds, second.kinds) == (["kill"], ["segv"])
    assert (first.ranks, second.ranks) == ((2, 2), (2, 2))
    assert (first.joined, second.joined) == (0, 1)
    assert (first.repairs_s, second.repairs_s) == ([], [0.2])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "failed", "reason": "x"}, "failed: x"),
        ({"world_size_end": 3}, "3 ranks at the end, 2 of 4 wanted"),
        ({"weights_hash": {"0": "ab", "3": "cd"}}, "2 hashes"),
        ({"weights_hash": {"0": "ab"}}, "ranks at the end"),
        ({"samples_lost": 4}, "samples_lost is 4"),
        ({"samples_repeated": 4}, "samples_repeated is 4"),
        ({"samples_used": 60}, "samples_used is 60, 64 wanted"),
        ({"strategy": "gossip"}, "strategy is gossip, sync wanted"),
        ({"spares_used": 0}, "spares_used is 0, 1 wanted"),
        ({"spares_lost": 0}, "spares_lost is 0, 1 wanted"),
        ({"faults": GOOD["faults"][:1]}, "no record of the death of ranks [1]"),
    ],
)
def test_a_wrong_summary_is_seen(change: dict[str, Any], said: str) -> None:
    plan, outcome = training()
    outcome.summary |= change
    first, second = trained(plan, outcome)
    assert said in first.wrong
    assert first.wrong == second.wrong


def test_what_else_is_wrong_with_a_training_is_seen() -> None:
    def wrong_of(change: Any) -> list[str]:
        plan, outcome = training()
        change(outcome)
        return [verdict.wrong for verdict in trained(plan, outcome)]

    def loss(outcome: Any, value: float, *, ranks: set[int]) -> None:
        for event in outcome.events:
            if event["event"] == "epoch" and event["step"] == 24 and event["rank"] in ranks:
                event["val_loss"] = value

    assert "planned" in wrong_of(lambda outcome: outcome.events.pop())[0]
    assert "status -1" in wrong_of(lambda outcome: setattr(outcome, "status", -1))[0]
    assert "no summary" in wrong_of(lambda outcome: setattr(outcome, "summary", None))[0]
    assert "left behind: /dev/shm/x" in wrong_of(lambda o: setattr(o, "left", ["/dev/shm/x"]))[0]
    diverged = wrong_of(lambda outcome: outcome.events[-2].update(replica=6.0))
    assert "2 different replicas after step 32" in diverged[0]
    assert "different losses" in wrong_of(lambda outcome: loss(outcome, 0.1, ranks={3}))[0]
    for value in (0.651, float("nan")):
        first, second = wrong_of(lambda outcome: loss(outcome, value, ranks={0, 3}))  # noqa: B023
        assert first == ""
        assert "after step 24, of one rank (0.6, 0.65)" in second
    missing = wrong_of(lambda outcome: outcome.events.__delitem__(slice(-3, -1)))
    assert "losses () after step 32" in missing[1]


def test_a_strategy_may_part_from_one_rank_but_not_far() -> None:
    """The judge looks at its losses and its report; each change of a right one is found wrong."""
    way = ("--strategy", "downpour", "--staleness-bound", "1")

    def wrong_of(change: Any, *, staleness: str = "1") -> str:
        plan, outcome = training()
        plan = dataclasses.replace(plan, starts=(dataclasses.replace(plan.starts[0], way=way),))
        outcome.summary |= {"strategy": "downpour", "staleness": {staleness: 3}}
        for event in outcome.events:
            if event["event"] == "epoch":
                event |= {"loss": 1.05 * event["loss"], "strategy": {"disagreement": 0.01}}
                change(event)
        return str(trained(plan, outcome)[1].wrong)

    assert wrong_of(lambda event: None) == ""
    for loss in (0.9, float("nan")):
        wrong = wrong_of(lambda event: event.update(loss=loss))  # noqa: B023
        assert "after step 24, of one rank" in wrong
    apart = wrong_of(lambda event: event["strategy"].update(disagreement=float("inf")))
    assert "apart after step 8" in apart
    assert "at most 1 wanted" in wrong_of(lambda event: None, staleness="2")


def test_what_a_start_leaves_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(training_launch.leftovers, "SHARED_MEMORY", memory)
    monkeypatch.setattr(training_launch, "_GRACE_S", 0.1)
    (memory / "matex-0-4711-host-0a-mpi").mkdir()
    (memory / "matex-0-4712-host-0b").mkdir()  # of another run
    waits = [sys.executable, "-c", "input()"]
    with subprocess.Popen(waits, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        left = training_launch._left(4711, tmp_path)
        process.communicate(b"\n")
    assert left == [f"{memory}/matex-0-4711-host-0a-mpi", f"process {process.pid}"]
    assert training_launch._left(4713, tmp_path) == []


def test_all_may_die_in_the_first_start_alone() -> None:
    plan, outcome = training()
    (start,) = plan.starts
    first = dataclasses.replace(start, faults=(), end_all=(1, 2))
    both = dataclasses.replace(plan, starts=(first, start))
    ended = training_launch.Outcome(status=1, output="", events=outcome.events[:7])
    outcome.events.insert(0, {"event": "fit", "rank": 0, "step": 24})
    one, two = trained(both, ended, outcome)
    assert (one.wrong, two.wrong) == ("", "")
    assert two.kinds == ["segv", "all"]
    outcome.events[0]["step"] = 16
    assert "went on from step 16" in trained(both, ended, outcome)[0].wrong
    ended.status = 0
    assert "though all ranks died" in trained(both, ended, outcome)[0].wrong
