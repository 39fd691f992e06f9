"""A script follows one trajectory, however many ranks run it and with either exchange.

One launch runs many kinds of it, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.train.runs import Outcome, assert_whole, matex_run, relative_differences

pytestmark = pytest.mark.timeout(700)  # two launches

LIMIT_S = 300

# Beside those of test_script_kinds.py.
KINDS = ["plain", "two-inputs", "class-weight", "regularized", "unshuffled", "at-once", "jit"]
EPOCHS = 2
ARGUMENTS = ["--kind", *KINDS, "--epochs", str(EPOCHS), "--samples", "1030"]


def losses(outcome: Outcome, kind: str) -> list[float]:
    first = KINDS.index(kind) * EPOCHS
    return outcome.losses[first : first + EPOCHS]


def evaluated(outcome: Outcome, kind: str) -> list[float]:
    start = f"evaluated {kind} "
    line = next(line for line in outcome.stdout.splitlines() if line.startswith(start))
    return [float(part) for part in line.removeprefix(start).strip("[]").split(", ")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("alone")
    return matex_run(folder, "classify.py", *ARGUMENTS, ranks=1, timeout_s=LIMIT_S)


@pytest.fixture(
    scope="module",
    params=[(3, "native"), pytest.param((2, "host"), marks=pytest.mark.slow)],
    ids=str,
)
def shared(
    alone: Outcome, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Outcome:
    ranks, exchange = request.param
    folder, options = tmp_path_factory.mktemp("shared"), ["--exchange", exchange]
    outcome = matex_run(
        folder, "classify.py", *ARGUMENTS, ranks=ranks, options=options, timeout_s=LIMIT_S
    )
    assert_whole(outcome, world_size_end=ranks, losses=alone.losses)
    assert len(outcome.losses) == EPOCHS * len(KINDS)
    return outcome


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_do_not_change_the_result(kind: str, alone: Outcome, shared: Outcome) -> None:
    assert max(relative_differences(losses(shared, kind), losses(alone, kind))) < 1e-4
    differences = relative_differences(evaluated(shared, kind), evaluated(alone, kind))
    assert max(differences) < 1e-4
    assert f"predicted {kind} (1030, 1)" in shared.stdout


@pytest.mark.slow
def test_metrics_are_those_of_the_whole_set(tmp_path: Path) -> None:
    """AUC is computed from summed states, not averaged over ranks."""
    outcomes = [
        matex_run(tmp_path, "classify.py", "--validate", ranks=n).summary["metrics"] for n in (1, 3)
    ]
    assert set(outcomes[0]) >= {"loss", "auc", "accuracy", "val_loss", "val_auc", "val_accuracy"}
    for name, value in outcomes[0].items():
        assert outcomes[1][name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.slow
def test_hdf5_data_sets_are_read_by_row(tmp_path: Path) -> None:
    """Contiguous and chunked ones; float64 on disk, read as float32."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(900, 12))
    paths = [tmp_path / "contiguous.h5", tmp_path / "chunked.h5"]
    for path, chunks in zip(paths, (None, (64, 12)), strict=True):
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=chunks)
            file.create_dataset("y", data=(x[:, 0] > 0).astype("int8"))
    arguments = ["--epochs", "2", "--data", *paths]
    alone = matex_run(tmp_path, "classify.py", *arguments, ranks=1).losses
    shared = matex_run(tmp_path, "classify.py", *arguments, ranks=2)
    assert_whole(shared, world_size_end=2, losses=alone)
    assert len(alone) == 4
    assert shared.summary["samples_used"] == 2 * 1800


@pytest.mark.slow
def test_more_ranks_than_samples_in_the_last_batch(tmp_path: Path) -> None:
    """130 samples in batches of 64 leave 2 for the last step of 4 ranks; see test_few_rows.py."""
    arguments = ["--samples", "130", "--batch-size", "64", "--epochs", "3"]
    alone = matex_run(tmp_path, "classify.py", *arguments, ranks=1).losses
    shared = matex_run(tmp_path, "classify.py", *arguments, ranks=4)
    assert_whole(shared, world_size_end=4, losses=alone)


def accuracy(outcome: Outcome) -> float:
    line = next(line for line in outcome.stdout.splitlines() if line.startswith("accuracy "))
    return float(line.split()[1])


@pytest.mark.slow
def test_dropout_repeats_from_the_seed_and_learns_as_well(tmp_path: Path) -> None:
    """The step's own tests, in test_step.py, see that masks differ between ranks."""
    alone, first, second = (
        matex_run(tmp_path / str(i), "random_layers.py", ranks=n) for i, n in enumerate((1, 2, 2))
    )
    hashes = first.summary["weights_hash"]
    assert hashes == second.summary["weights_hash"]
    assert len(set(hashes.values())) == 1
    # Of 1000 held-out samples; at .9, the standard error of a difference is .013.
    assert accuracy(alone) > 0.85
    assert accuracy(first) == pytest.approx(accuracy(alone), abs=0.03)
