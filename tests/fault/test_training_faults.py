"""Ranks die while a Keras script trains: each fault is a line, and each run must be whole.

Whole: status 0, no sample lost or repeated, survivors with equal weights, and the
losses of every epoch within 1e-4 of the run without a fault and of one rank alone.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.train.runs import (
    Outcome,
    assert_whole,
    faults,
    matex_run,
    relative_differences,
)

ARGUMENTS = ["--epochs", "2", "--validate", "--optimizer", "sgd"]
STEPS = 32  # two epochs of 2000 samples in batches of 128
EXCHANGES = ["native", "host"]
PHASES = ["compute", "before-exchange", "in-exchange", "after-exchange"]


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Of one rank alone; four ranks without a fault must agree."""
    alone, four = (
        matex_run(tmp_path_factory.mktemp(f"ranks{n}"), "classify.py", *ARGUMENTS, ranks=n)
        for n in (1, 4)
    )
    assert_whole(four, world_size_end=4, losses=alone.losses)
    return alone.losses


def measured(outcome: Outcome) -> list[dict[str, object]]:
    """The fault records, each with the times that were asked for."""
    records = outcome.summary["faults"]
    for record in records:
        assert 0 <= record["detect_s"] <= record["to_next_step_s"]
        assert 0 < record["repair_s"] <= record["to_next_step_s"]
        assert record["world_size_before"] > record["world_size_after"]
    return records


# name: (faults, ranks at the end, the ranks that must be reported lost)
CASES: dict[str, tuple[list[str], int, set[int]]] = {
    "a-rank": (["kill:rank=2,step=10"], 3, {2}),
    "rank-0": (["kill:rank=0,step=10"], 3, {0}),
    "two-in-one-step": (["kill:rank=1+3,step=12"], 2, {1, 3}),
    "two-in-one-step-in-two-phases": (
        ["kill:rank=0,step=12", "kill:rank=2,step=12,at=after-exchange"],
        2,
        {0, 2},
    ),
    "three-of-four": (
        [
            "kill:rank=3,step=5,at=in-exchange",
            "kill:rank=0,step=14",
            "kill:rank=2,step=25,at=after-exchange",
        ],
        1,
        {0, 2, 3},
    ),
    "during-recovery": (["kill:rank=2,step=9", "kill:rank=1,step=9,at=recovery"], 2, {1, 2}),
    "leaders-during-recovery": (
        ["kill:rank=0,step=9", "kill:rank=1,step=9,at=recovery"],
        2,
        {0, 1},
    ),
    "raises": (["raise:rank=1,step=10"], 3, {1}),
    "raises-in-the-exchange": (["raise:rank=1,step=10,at=before-exchange"], 3, {1}),
    "exits": (["exit:rank=3,step=10"], 3, {3}),
    "segmentation-fault": (["segv:rank=2,step=10"], 3, {2}),
    "first-step": (["kill:rank=1,step=0"], 3, {1}),
    "last-step": (["kill:rank=1,step=31,at=in-exchange"], 3, {1}),
    "in-validation": (["kill:rank=2,step=16,at=validation"], 3, {2}),
    "the-leader-in-validation": (["kill:rank=0,step=32,at=validation"], 3, {0}),
}


# Each launch costs some ten seconds of two cores. What strikes outside the exchange is the same
# for both, so the host exchange is tried where they differ, and in half of the random kills.
HOST_TOO = ("a-rank", "three-of-four", "during-recovery", "raises-in-the-exchange", "last-step")
TRIED = [(case, "native") for case in CASES] + [(case, "host") for case in HOST_TOO]


@pytest.mark.parametrize(("case", "exchange"), TRIED)
def test_survivors_finish(case: str, exchange: str, losses: list[float], tmp_path: Path) -> None:
    plan, world_size_end, lost = CASES[case]
    options = [*faults(*plan), "--exchange", exchange]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=4, options=options)
    assert_whole(outcome, world_size_end=world_size_end, losses=losses)
    assert {r["rank"] for r in outcome.summary["faults"]} == lost
    if case != "the-leader-in-validation":  # no step comes after it
        measured(outcome)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--kills")))


def test_random_kills(seed: int, losses: list[float], tmp_path: Path) -> None:
    """One to three of four ranks, at random steps and in random phases, with either exchange."""
    exchange = EXCHANGES[seed % len(EXCHANGES)]
    generator = random.Random(seed)
    dead = generator.sample(range(4), generator.choice([1, 1, 1, 2, 3]))
    plan = [
        f"kill:rank={rank},step={generator.randrange(STEPS)},at={generator.choice(PHASES)}"
        for rank in dead
    ]
    options = [*faults(*plan), "--exchange", exchange]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=4, options=options)
    assert_whole(outcome, world_size_end=4 - len(dead), losses=losses)
    assert {record["rank"] for record in measured(outcome)} == set(dead)


def test_a_stopped_rank_is_ended_by_its_neighbours(losses: list[float], tmp_path: Path) -> None:
    outcome = matex_run(
        tmp_path, "classify.py", *ARGUMENTS, ranks=3, options=faults("stop:rank=1,step=10")
    )
    assert_whole(outcome, world_size_end=2, losses=losses)


def test_a_slow_rank_is_only_slow(losses: list[float], tmp_path: Path) -> None:
    plan = faults("slow:rank=1,step=5,factor=3,steps=4")
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=2, options=plan)
    assert_whole(outcome, world_size_end=2, losses=losses)


def test_a_fault_that_never_fires_is_told(losses: list[float], tmp_path: Path) -> None:
    plan = faults("kill:rank=1,step=4000")
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=2, options=plan)
    assert_whole(outcome, world_size_end=2, losses=losses)
    untold = [e for e in outcome.events if e["event"] == "fault-not-fired"]
    assert [e["fault"] for e in untold] == ["kill:rank=1,step=4000"]
    assert "never fired" in outcome.stdout


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_nan_on_one_rank_is_named_and_stops_all(exchange: str, tmp_path: Path) -> None:
    options = [*faults("nan:rank=1,step=7"), "--exchange", exchange]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=3, options=options)
    assert outcome.status == 1
    (line,) = outcome.stderr.strip().splitlines()
    assert "step 7" in line and "rank 1" in line and "dense" in line
    assert outcome.summary["status"] == "failed"
    assert outcome.summary["reason"] in line
    assert outcome.summary["steps"] == 7


def test_callbacks_go_on_from_another_leader(tmp_path: Path) -> None:
    """Files are written once, rank 0 is lost, and its successor goes on with them."""
    alone, faulty = tmp_path / "alone", tmp_path / "faulty"
    for folder in (alone, faulty):
        folder.mkdir()
    reference = matex_run(alone, "callbacks.py", alone, ranks=1)
    outcome = matex_run(
        faulty, "callbacks.py", faulty, ranks=3, options=faults("kill:rank=0,step=15")
    )
    assert_whole(outcome, world_size_end=2, losses=reference.losses)
    rows = [(folder / "log.csv").read_text().splitlines() for folder in (alone, faulty)]
    assert len(rows[0]) == len(rows[1]) == 1 + 4  # a header, four epochs: it stopped itself
    for mine, theirs in zip(rows[1][1:], rows[0][1:], strict=True):
        values = [[float(v) for v in line.split(",")[1:]] for line in (mine, theirs)]
        assert max(relative_differences(*values)) < 1e-4
    assert (faulty / "best.keras").exists()
    assert outcome.stdout.count("my callback: epoch 3") == 1
