"""Ranks die while a Keras script trains: each fault is a line, and each run must be whole.

Whole: status 0, no sample lost or repeated, survivors with equal weights, and the
losses of every epoch within 1e-4 of the run without a fault and of one rank alone.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ci.patience import patience
from tests.train.runs import EXCHANGES, assert_whole, faults, matex_run, relative_differences

pytestmark = pytest.mark.usefixtures("forked_ranks")

ARGUMENTS = ["--epochs", "2", "--validate", "--optimizer", "sgd"]
STEPS = 32  # two epochs of 2000 samples in batches of 128
PHASES = ["compute", "before-exchange", "in-exchange", "after-exchange"]

# Each launch costs some ten seconds of two cores, so one has several faults, one after the other.
# name: (ranks at the start, {the rank lost: its fault})
RUNS: dict[str, tuple[int, dict[int, str]]] = {
    "every-way-to-end": (
        6,
        {
            2: "kill:rank=2,step=10",
            1: "raise:rank=1,step=13",
            4: "raise:rank=4,step=16,at=before-exchange",
            3: "exit:rank=3,step=20",
            5: "segv:rank=5,step=24",
        },
    ),
    "leaders": (
        5,
        {
            0: "kill:rank=0,step=10",
            1: "kill:rank=1,step=11",
            2: "kill:rank=2,step=17,at=in-exchange",
            3: "kill:rank=3,step=17,at=recovery",
        },
    ),
    "first-and-last-step": (
        4,
        {
            1: "kill:rank=1,step=0",
            2: "kill:rank=2,step=16,at=validation",
            3: "kill:rank=3,step=31,at=in-exchange",
        },
    ),
    "two-in-one-step": (
        5,
        {
            1: "kill:rank=1,step=12",
            3: "kill:rank=3,step=12",
            0: "kill:rank=0,step=20",
            2: "kill:rank=2,step=20,at=after-exchange",
        },
    ),
    "three-of-four": (
        4,
        {
            3: "kill:rank=3,step=5,at=in-exchange",
            0: "kill:rank=0,step=14",
            2: "kill:rank=2,step=25,at=after-exchange",
        },
    ),
    "during-recovery": (3, {2: "kill:rank=2,step=9", 1: "kill:rank=1,step=9,at=recovery"}),
    "the-leader-in-validation": (2, {0: "kill:rank=0,step=32,at=validation"}),  # after all steps
}
WITH_HOST = ["leaders"]  # of the quick tests; what differs is how an exchange fails and ends
FAULTS = [
    pytest.param(
        name, rank, exchange,
        marks=[pytest.mark.slow] * (exchange == "host" and name not in WITH_HOST),
    )
    for exchange in EXCHANGES
    for name, (_, plan) in RUNS.items()
    for rank in plan
]  # fmt: skip


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of one rank, with which ranks without a fault agree: see whole_runs/test_parity.py."""
    return matex_run(tmp_path_factory.mktemp("alone"), "classify.py", *ARGUMENTS, ranks=1).losses


def survived(
    folder: Path, plan: Iterable[str], *, ranks: int, exchange: str, losses: list[float]
) -> dict[int, dict[str, Any]]:
    """Run with the faults; return the record of each rank that was lost, in a run that is whole."""
    plan = list(plan)
    options = [*faults(*plan), "--exchange", exchange]
    outcome = matex_run(folder, "classify.py", *ARGUMENTS, ranks=ranks, options=options)
    assert_whole(outcome, world_size_end=ranks - len(plan), losses=losses)
    return {record["rank"]: record for record in outcome.summary["faults"]}


def assert_measured(record: dict[str, Any]) -> None:
    assert 0 <= record["detect_s"] <= record["to_next_step_s"]
    assert 0 < record["repair_s"] <= record["to_next_step_s"]
    assert record["world_size_before"] > record["world_size_after"]


@pytest.fixture(scope="module")
def records(
    losses: list[float], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], dict[int, dict[str, Any]]]:
    """The fault records of a run of the table with an exchange; each is made once."""

    @functools.cache
    def made(name: str, exchange: str) -> dict[int, dict[str, Any]]:
        ranks, plan = RUNS[name]
        folder = tmp_path_factory.mktemp(name)
        return survived(folder, plan.values(), ranks=ranks, exchange=exchange, losses=losses)

    return made


@pytest.mark.parametrize(("name", "rank", "exchange"), FAULTS)
def test_survivors_finish(
    name: str, rank: int, exchange: str, records: Callable[[str, str], dict[int, dict[str, Any]]]
) -> None:
    found = records(name, exchange)
    assert found.keys() == RUNS[name][1].keys()
    step = int(re.search(r"step=(\d+)", RUNS[name][1][rank])[1])  # type: ignore[index]
    assert found[rank]["step"] == step
    if step < STEPS:
        assert_measured(found[rank])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        launches = -(-metafunc.config.getoption("--kills") // KILLS_A_RUN)
        metafunc.parametrize("seed", range(launches))


KILLS_A_RUN = 5


@pytest.mark.slow
def test_training_survives_random_kills_in_random_phases(
    seed: int, losses: list[float], tmp_path: Path
) -> None:
    """Five of six ranks, at random steps and in random phases, with either exchange."""
    exchange = EXCHANGES[seed % len(EXCHANGES)]
    generator = random.Random(seed)
    dead = generator.sample(range(KILLS_A_RUN + 1), KILLS_A_RUN)
    plan = [
        f"kill:rank={rank},step={generator.randrange(STEPS)},at={generator.choice(PHASES)}"
        for rank in dead
    ]
    found = survived(tmp_path, plan, ranks=len(dead) + 1, exchange=exchange, losses=losses)
    assert found.keys() == set(dead)
    for record in found.values():
        if record["step"] < STEPS - 1:  # after the last one there is no next
            assert_measured(record)


def test_a_slow_rank_is_let_go_and_one_that_hangs_ends_itself(
    losses: list[float], tmp_path: Path
) -> None:
    # Not in the first steps, which trace: twenty times as long would pass for a hang.
    plan = faults("slow:rank=2,step=3,factor=20,steps=90", "hang:rank=1,step=28")
    # Ranks are compared four times, and three are needed: on busy cores others may be slow as well.
    # The hang comes after the third: of four ranks, one that is delayed changes no median.
    options = [*plan, "--straggler", "evict", "--check-every", "8"]
    options += ["--hang-timeout", str(patience(8))]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=4, options=options)
    assert_whole(outcome, world_size_end=2, losses=losses)
    deaths = {e["rank"]: e["reason"] for e in outcome.events if e["event"] == "death"}
    assert set(deaths) == {1, 2}
    assert deaths[1].startswith("made no progress for ")
    assert deaths[2].startswith("rank 2 computes ") and deaths[2].endswith(": evicted")
    (event,) = (e for e in outcome.events if e["event"] == "straggler")
    assert (event["rank"], event["evicted"]) == (2, True)


def test_slow_is_only_slow_and_stopped_is_ended(losses: list[float], tmp_path: Path) -> None:
    """And a fault that never fires is told."""
    plan = [
        "slow:rank=0,step=5,factor=3,steps=4",
        "stop:rank=1,step=20",
        "kill:rank=2,step=4000",
    ]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=3, options=faults(*plan))
    assert_whole(outcome, world_size_end=2, losses=losses)
    assert [(r["rank"], r["kind"]) for r in outcome.summary["faults"]] == [(0, "slow"), (1, "stop")]
    untold = [e for e in outcome.events if e["event"] == "fault-not-fired"]
    assert [e["fault"] for e in untold] == [plan[2]]
    assert "never fired" in outcome.stdout


@pytest.mark.parametrize(("exchange", "ranks"), [("native", 3), ("host", 2)])
def test_nan_on_one_rank_is_named_and_stops_all(exchange: str, ranks: int, tmp_path: Path) -> None:
    options = [*faults("nan:rank=1,step=7"), "--exchange", exchange]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=ranks, options=options)
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
