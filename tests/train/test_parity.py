"""The same script on 1, 2 and 3 ranks follows one trajectory."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.train.runs import assert_whole, matex_run, relative_differences

KINDS = [
    "plain",
    "two-inputs",
    "weighted",
    "class-weight",
    "regularized",
    "split",
    "unshuffled",
    "custom",
    "schedule",
    "clipped",
    "eager",
    "at-once",
    "embedding",
    "mixed",
    "jit",
]


def evaluated(stdout: str) -> list[float]:
    line = next(line for line in stdout.splitlines() if line.startswith("evaluated"))
    return [float(part) for part in line.removeprefix("evaluated [").rstrip("]").split(", ")]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_do_not_change_the_result(kind: str, tmp_path: Path) -> None:
    arguments = ["--kind", kind, "--epochs", "2", "--samples", "1030"]
    alone = matex_run(tmp_path, "classify.py", *arguments, ranks=1)
    losses = alone.losses
    assert len(losses) == 2
    shared = matex_run(tmp_path, "classify.py", *arguments, ranks=3)
    assert_whole(shared, world_size_end=3, losses=losses)
    if kind != "custom":
        differences = relative_differences(evaluated(shared.stdout), evaluated(alone.stdout))
        assert max(differences) < 1e-4
    assert "predicted (1030, 1)" in shared.stdout


def test_metrics_are_those_of_the_whole_set(tmp_path: Path) -> None:
    """AUC is computed from summed states, not averaged over ranks."""
    outcomes = [
        matex_run(tmp_path, "classify.py", "--validate", ranks=n).summary["metrics"] for n in (1, 3)
    ]
    assert set(outcomes[0]) >= {"loss", "auc", "accuracy", "val_loss", "val_auc", "val_accuracy"}
    for name, value in outcomes[0].items():
        assert outcomes[1][name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize("chunks", [None, (64, 12)], ids=["contiguous", "chunked"])
def test_hdf5_data_sets_are_read_by_row(chunks: tuple[int, int] | None, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(900, 12))  # float64 on disk, read as float32
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=chunks)
        file.create_dataset("y", data=(x[:, 0] > 0).astype("int8"))
    arguments = ["--data", str(tmp_path / "data.h5"), "--epochs", "2"]
    alone = matex_run(tmp_path, "classify.py", *arguments, ranks=1)
    shared = matex_run(tmp_path, "classify.py", *arguments, ranks=2)
    assert_whole(shared, world_size_end=2, losses=alone.losses)
    assert shared.summary["samples_used"] == 1800


def test_more_ranks_than_samples_in_the_last_batch(tmp_path: Path) -> None:
    """130 samples in batches of 64 leave 2 for the last step of 4 ranks."""
    arguments = ["--samples", "130", "--batch-size", "64", "--epochs", "3"]
    alone = matex_run(tmp_path, "classify.py", *arguments, ranks=1)
    shared = matex_run(tmp_path, "classify.py", *arguments, ranks=4)
    assert_whole(shared, world_size_end=4, losses=alone.losses)


def test_dropout_masks_differ_and_repeat_from_the_seed(tmp_path: Path) -> None:
    first, second = (
        matex_run(tmp_path, "random_layers.py", ranks=2).summary["weights_hash"] for _ in range(2)
    )
    assert first == second
    assert len(set(first.values())) == 1
