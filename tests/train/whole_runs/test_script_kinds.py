"""Every kind of Keras script in one process, on two and on three ranks, and with ranks killed.

One launch runs many kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import slow
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run

pytestmark = pytest.mark.timeout(600)

DATA = [
    "arrays", "arrays-as-stored", "arrays-with-steps", "initial-epoch", "sample-weight",
    "validation-split", "tf-data", "tf-data-cached", "tf-data-mapped", "tf-data-looked-up",
    "tf-data-repeated", "tf-data-read-in-parts", "tf-data-unknown-length", "tf-data-weighted",
    "tf-data-random", "tf-data-dicts", "py-dataset", "py-dataset-with-workers", "generators",
    "generator-that-ends", "generator-that-fails", "data-let-go-of", "evaluate-unbuilt",
    "evaluate-and-predict", "train-on-batch", "predict-beside",
]  # fmt: skip
MODELS = [
    "functional", "subclassed", "own-train-step", "step-with-metrics", "step-with-trackers",
    "step-with-its-loss", "step-of-parts", "embedding", "lstm", "masked-loss",
    "summed-loss", "loss-scaling", "clipping", "normalized-gradients", "accumulation",
    "schedule", "eager", "several-models", "refused-first", "gan", "eager-loop",
    "loop-rounded-otherwise", "graph-loop", "compiled-loop", "loop-in-a-graph", "two-optimizers",
    "metrics-made-in-steps", "metrics-made-in-eager-steps", "metrics-made-in-losses",
    "metrics-made-in-logs", "metrics-counted-before-an-error", "eager-counter", "eager-state",
    "eager-memory", "eager-branches", "eager-builds", "metrics-made-late", "python-before-training",
    "python-before-epochs", "python-before-batches", "python-traced-again",
    "python-beside-validation", "python-between-evaluations", "python-in-a-loop",
    "errors-of-shapes", "built-in-training", "own-loss-scale", "made-by-its-step",
    "copied-in-its-step",
]  # fmt: skip
KINDS = [*DATA, *MODELS]

# One of each way through the step: what differs between the others happens before or after it.
WITH_HOST = [
    "arrays", "sample-weight", "validation-split", "tf-data", "py-dataset", "generators",
    "train-on-batch", "own-train-step", "step-with-trackers", "embedding", "lstm", "loss-scaling",
    "clipping", "accumulation", "eager", "several-models", "refused-first", "gan", "graph-loop",
]  # fmt: skip

# Numbers of steps are those of the kinds in their order.
KILLS = {
    "streams": (
        ["tf-data-cached", "tf-data-mapped", "py-dataset", "generators", "tf-data-looked-up"],
        [
            "kill:rank=0,step=4",
            "kill:rank=1,step=22,at=in-exchange",
            "kill:rank=2,step=74,at=after-exchange",
        ],
    ),
    "whole": (
        ["train-on-batch", "gan", "loop-in-a-graph", "two-optimizers"],
        [
            "kill:rank=0,step=4",
            "kill:rank=1,step=19,at=in-exchange",
            "kill:rank=3,step=48,at=after-exchange",
        ],
    ),
    "forward": (
        ["evaluate-and-predict", "tf-data-unknown-length", "tf-data-repeated"],
        [
            "kill:rank=1,step=8,at=validation",
            "kill:rank=0,step=12",
            "kill:rank=2,step=27,at=validation",
        ],
    ),
}

Outcomes = dict[str, dict[str, Any]]


def outcomes(folder: Path) -> Outcomes:
    """The outcome of each kind, as the ranks wrote it; they must have written the same."""
    found: Outcomes = {}
    for path in sorted(folder.glob("*.json")):
        kind = path.stem.rpartition("-")[0]
        outcome = json.loads(path.read_text())
        assert found.setdefault(kind, outcome)["weights"] == outcome["weights"], path.name
    return found


def in_plain_keras(folder: Path, kinds: Collection[str]) -> Outcomes:
    """Run the kinds in one process, without matex."""
    command = [*PLAIN, SCRIPTS / "train_kinds.py", folder, *kinds]
    done = execute(command, directory=folder, timeout_s=300)
    assert done.returncode == 0, done.stderr
    return outcomes(folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


def on_ranks(folder: Path, kinds: list[str], *, ranks: int, options: list[str]) -> Outcomes:
    written = folder / "outcomes"
    written.mkdir()
    outcome = matex_run(
        folder, "train_kinds.py", written, *kinds, ranks=ranks, options=options, timeout_s=500
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    lost = sum(option == "--inject" for option in options)
    assert summary["world_size_end"] == ranks - lost == len(summary["weights_hash"])
    assert len(summary["faults"]) == lost
    assert summary["samples_used"] == summary["samples_expected"] > 0
    assert len(set(summary["weights_hash"].values())) == 1
    assert summary["numbers"] == "of plain Keras"
    assert "built from its data" not in outcome.stdout  # before an error of the script's own
    return outcomes(written)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return on_ranks(tmp_path_factory.mktemp("three"), KINDS, ranks=3, options=[])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    options = ["--exchange", "host"]
    return on_ranks(tmp_path_factory.mktemp("two"), WITH_HOST, ranks=2, options=options)


def flat(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        for part in value:
            yield from flat(part)
    else:
        yield value


def assert_same(mine: Any, theirs: Any) -> None:
    assert list(flat(mine["numbers"])) == pytest.approx(
        list(flat(theirs["numbers"])), rel=1e-4, abs=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_three_ranks_give_the_result_of_one_process(
    kind: str, alone: Outcomes, three: Outcomes
) -> None:
    assert_same(three[kind], alone[kind])


@pytest.mark.parametrize("kind", WITH_HOST)
@pytest.mark.slow
def test_two_ranks_with_the_host_exchange_do_so_too(
    kind: str, alone: Outcomes, two: Outcomes
) -> None:
    assert_same(two[kind], alone[kind])


@pytest.mark.parametrize("name", slow.all_but(["streams"], KILLS))
def test_so_they_do_when_ranks_die(name: str, alone: Outcomes, tmp_path: Path) -> None:
    kinds, plan = KILLS[name]
    for kind, outcome in on_ranks(tmp_path, kinds, ranks=4, options=faults(*plan)).items():
        assert_same(outcome, alone[kind])
