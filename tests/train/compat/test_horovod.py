"""Horovod's names: right on ranks, transparent without, and refused by name where they mislead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.train.runs import PLAIN, SCRIPTS, Outcome, execute, faults, matex_run

ROWS, BATCH, EPOCHS, RATE = 64, 16, 2, 0.1
WAYS = ["tape_and_optimizer", "tape_alone", "fit", "own_train_step"]
STEPS = EPOCHS * ROWS // BATCH  # of each way

REFUSED = {
    "fit, dataset": ["give fit the same", "dataset.shard(2, 0) on rank 0", "delete .shard"],
    "fit, arrays": ["give fit the same", "other values on rank 1", "x[rank::size]"],
    "fit, rows": ["64 rows on rank 0 and 63 on rank 1", "x[rank::size]"],
    "validation, arrays": ["give validation_data the same", "x[rank::size]"],
    "validation": ["give validation_data the same", "dataset.shard(2, 1) on rank 1"],
    "evaluate": ["give evaluate the same", "x[rank::size]"],
    "predict": ["give predict the same", "x[rank::size]"],
    "passes": ["gradient_accumulation_steps", "backward_passes_per_step=4"],
    "op": ["gradients are averaged", "op='sum'"],
    "optimizer": ["Keras 3 optimizer", "Sequential"],
    "tape": ["tf.GradientTape", "Sequential"],
    "variables": ["broadcast_variables", "delete the line: weights are equal"],
    "callback": ["BroadcastGlobalVariablesCallback", "delete the line: weights are equal"],
    "fit, generator": ["same batches", "delete what shards the data by rank"],
    "train_on_batch": ["same batches", "delete what shards the data by rank"],
    "custom loop": ["must compute the same", "dataset.shard(size, rank)"],
}


def found(directory: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in directory.glob("[0-9].json")}


def weights_by_numpy() -> list[float]:
    """Gradient descent on the mean square, by its formula."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(ROWS, 3)).astype(np.float32)
    noise = 0.1 * generator.normal(size=(ROWS, 1))
    y = (x @ np.array([[1.0], [-2.0], [0.5]]) + noise).astype(np.float32)
    w = np.zeros((3, 1))
    for start in [*range(0, ROWS, BATCH)] * EPOCHS:
        a, b = x[start : start + BATCH].astype(float), y[start : start + BATCH]
        w -= RATE * 2 / BATCH * a.T @ (a @ w - b)
    return [float(value) for value in w.ravel()]


def assert_trained(results: dict[str, dict[str, Any]]) -> None:
    reference = weights_by_numpy()
    for result in results.values():
        for way in WAYS:
            assert result[way] == pytest.approx(reference, rel=1e-5), way
        assert result == next(iter(results.values()))  # to the last bit


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("two")
    outcome = matex_run(folder, "horovod.py", folder, "WRONG", ranks=2)
    assert outcome.status == 0, outcome.stderr
    return outcome, found(folder)


def test_two_ranks_train_as_the_formula_says(
    two: tuple[Outcome, dict[str, dict[str, Any]]],
) -> None:
    outcome, results = two
    assert sorted(results) == ["0", "1"]
    assert_trained(results)
    assert "delete factors of size()" in outcome.stdout


@pytest.mark.parametrize("case", REFUSED)
def test_what_misleads_is_refused_by_name(
    case: str, two: tuple[Outcome, dict[str, dict[str, Any]]]
) -> None:
    for result in two[1].values():
        said, changed = result["refused"][case]
        assert [part for part in REFUSED[case] if part not in said] == [], said
        assert not changed


def test_a_rank_dies_in_each_kind_of_loop(tmp_path: Path) -> None:
    plan = ["kill:rank=0,step=5,at=in-exchange", "kill:rank=2,step=11"]
    outcome = matex_run(tmp_path, "horovod.py", tmp_path, ranks=3, options=faults(*plan))
    assert outcome.status == 0, outcome.stderr
    results = found(tmp_path)
    assert sorted(results) == ["1"]
    assert_trained(results)
    summary = outcome.summary
    assert len(summary["faults"]) == 2
    # Once: had the optimizer averaged what the tape had, there would be more steps.
    assert summary["steps"] == STEPS * len(WAYS)


def test_without_a_run_they_are_transparent(tmp_path: Path) -> None:
    done = execute([*PLAIN, SCRIPTS / "horovod.py", tmp_path], directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_trained(found(tmp_path))
