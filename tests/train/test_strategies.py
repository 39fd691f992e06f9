"""One contract for the strategies that let replicas part: whole runs, with and without deaths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.train.runs import Outcome, faults, matex_run

ARGUMENTS = ("--epochs", "3", "--validate", "--optimizer", "sgd")
STEPS = 48
PARTING = ["gossip", "easgd"]


def run(
    folder: Path, strategy: str, *arguments: str, ranks: int, options: tuple[Any, ...] = ()
) -> Outcome:
    outcome = matex_run(
        folder, "classify.py", *ARGUMENTS, *arguments,
        ranks=ranks, options=["--strategy", strategy, *options],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert summary["strategy"] == strategy
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(summary["weights_hash"]) == summary["world_size_end"]
    assert len(set(summary["weights_hash"].values())) == 1  # the end is a consensus
    return outcome


def disagreements(outcome: Outcome) -> list[float]:
    epochs = [event for event in outcome.events if event["event"] == "epoch"]
    return [event["strategy"]["disagreement"] for event in epochs]


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Of one rank, which every strategy but for its partings follows."""
    return run(tmp_path_factory.mktemp("sync"), "sync", ranks=1).losses


@pytest.mark.parametrize("strategy", PARTING)
def test_an_odd_number_of_ranks_learns_as_one_does_and_resumes_on_two(
    strategy: str, losses: list[float], tmp_path: Path
) -> None:
    saved = ("--checkpoint", tmp_path / "saved", "--checkpoint-every", "5")
    outcome = run(tmp_path / "three", strategy, ranks=3, options=saved)
    assert outcome.summary["steps"] == STEPS
    assert outcome.losses == pytest.approx(losses, rel=0.05)
    assert 0 < max(disagreements(outcome)) < 0.1
    if strategy == "gossip":
        assert outcome.summary["messages_per_step"] == 2  # the step's collective, and one model
        assert outcome.summary["bytes_per_step"] > 4 * outcome.summary["parameters_end"]
    if strategy == "easgd":
        assert outcome.summary["messages_per_step"] == 1.25
    for path in sorted((tmp_path / "saved").glob("step-*.h5"))[1:]:
        path.unlink()  # what is left was made inside an epoch
    again = run(tmp_path / "two", strategy, ranks=2, options=saved)
    assert again.summary["steps"] < STEPS
    assert again.losses[-1] == pytest.approx(outcome.losses[-1], rel=0.02)


@pytest.mark.parametrize("strategy", PARTING)
def test_ranks_die_in_every_phase_down_to_one(
    strategy: str, losses: list[float], tmp_path: Path
) -> None:
    plan = (
        "kill:rank=0,step=7",
        "kill:rank=4,step=13,at=before-exchange",
        "kill:rank=2,step=21,at=in-exchange",
        "kill:rank=1,step=30,at=after-exchange",
    )
    outcome = run(tmp_path, strategy, ranks=5, options=tuple(faults(*plan)))
    assert outcome.summary["world_size_end"] == 1
    assert len(outcome.summary["faults"]) == len(plan)
    assert outcome.losses == pytest.approx(losses, rel=0.05)
