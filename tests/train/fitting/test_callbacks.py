"""Callbacks do on ranks, and when the leader dies, what they do in one process."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run, relative_differences


def rows(folder: Path) -> list[list[float]]:
    header, *lines = (folder / "log.csv").read_text().splitlines()
    assert "val_loss" in header
    return [[float(value) for value in line.split(",")] for line in lines]


def arrays(path: Path) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    with h5py.File(path) as file:
        file.visititems(lambda _, item: found.append(item[()]) if hasattr(item, "shape") else None)
    return found


def board(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """TensorBoard's curves, "train/epoch_loss" and so on, as (epoch, value) in order of epochs."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    curves: dict[str, list[tuple[int, float]]] = {}
    for path in (folder / "board").rglob("events*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.tag.startswith("epoch_"):
                    curve = curves.setdefault(f"{path.parent.name}/{value.tag}", [])
                    curve.append((event.step, float(make_ndarray(value.tensor))))
    return {name: sorted(points) for name, points in curves.items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of plain Keras after two epochs, and after a second run that goes on."""
    folder = tmp_path_factory.mktemp("alone")
    for epochs in ("2", "8"):
        done = execute([*PLAIN, SCRIPTS / "watched.py", folder, epochs], directory=folder)
        assert done.returncode == 0, done.stderr
    assert "steps 54" in done.stdout  # 5 epochs of 10 steps and 4 of the sixth
    return folder


def test_files_and_decisions_are_those_of_one_process(alone: Path, tmp_path: Path) -> None:
    """The leader dies in each of two runs; the second goes on from the backup of the first."""
    for epochs, ranks, plan in (("2", 3, "kill:rank=0,step=13"), ("8", 2, "kill:rank=0,step=24")):
        outcome = matex_run(
            tmp_path, "watched.py", tmp_path, epochs, ranks=ranks, options=faults(plan)
        )
        assert outcome.status == 0, outcome.stderr
        summary = outcome.summary
        assert summary["samples_used"] == summary["samples_expected"] > 0
        assert len(set(summary["weights_hash"].values())) == 1
    assert "steps 54" in outcome.stdout
    mine, theirs = rows(tmp_path), rows(alone)
    assert [row[0] for row in mine] == [row[0] for row in theirs] == [0, 1, 2, 3, 4, 5]
    for row, wanted in zip(mine, theirs, strict=True):
        assert max(relative_differences(row[1:], wanted[1:])) < 1e-4
    written = {path.name for path in alone.iterdir()} - {"report"}
    assert written <= {path.name for path in tmp_path.iterdir()}
    for name in (f"each-{epoch}.weights.h5" for epoch in range(1, 6)):
        for a, b in zip(arrays(tmp_path / name), arrays(alone / name), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    pytest.importorskip("tensorboard")
    mine_on_board, theirs_on_board = board(tmp_path), board(alone)
    assert {"train/epoch_loss", "validation/epoch_accuracy"} <= set(theirs_on_board)
    for curve, points in theirs_on_board.items():
        written_once = [(epoch, pytest.approx(value, rel=1e-4)) for epoch, value in points]
        assert mine_on_board[curve] == written_once, curve


def test_the_best_model_outlives_the_leader(alone: Path, tmp_path: Path) -> None:
    """The first epoch's is the best; the heir must know, and not save a worse one over it."""
    plan = faults("kill:rank=0,step=15")
    outcome = matex_run(tmp_path, "watched.py", tmp_path, "4", ranks=2, options=plan)
    assert outcome.status == 0, outcome.stderr
    import keras

    (kernel, _) = keras.models.load_model(tmp_path / "best.keras").get_weights()
    with h5py.File(tmp_path / "each-1.weights.h5") as file:
        first = file["layers/dense/vars/0"][()]
    np.testing.assert_array_equal(kernel, first)


def test_a_leader_that_dies_among_its_callbacks_leaves_no_gap(tmp_path: Path) -> None:
    """Files have each epoch once: the next leader writes what the first had not."""
    plain, ranks = tmp_path / "plain", tmp_path / "ranks"
    for folder in (plain, ranks):
        folder.mkdir()
    done = execute([*PLAIN, SCRIPTS / "dying_leader.py", plain], directory=plain)
    assert done.returncode == 0, done.stderr
    outcome = matex_run(ranks, "dying_leader.py", ranks, ranks=6)
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["world_size_end"] == 2
    names = [path.relative_to(plain) for path in plain.rglob("*") if path.is_file()]
    assert len(names) == 3 * 5 + 3
    assert not list(ranks.rglob("backup"))  # which would end the next start at once
    for name in names:
        mine, theirs = ranks / name, plain / name
        if name.suffix == ".h5":
            for a, b in zip(arrays(mine), arrays(theirs), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        elif name.suffix == ".csv":
            lines = [path.read_text().splitlines() for path in (mine, theirs)]
            assert [line[:4] for line in lines[0]] == [line[:4] for line in lines[1]], name
        elif name.suffix == ".txt":
            assert mine.read_text() == theirs.read_text()
        else:
            assert mine.stat().st_size > 0


def test_a_loss_that_a_step_names_is_logged_beside_compiled_metrics(tmp_path: Path) -> None:
    """Keras logs what the step returned, not results of its own metrics of the same names."""
    script = SCRIPTS / "named_logs.py"
    plain = json.loads(execute([*PLAIN, script], directory=tmp_path).stdout)
    outcome = matex_run(tmp_path, script, ranks=2)
    assert outcome.status == 0, outcome.stderr
    history, evaluated = json.loads(outcome.stdout.splitlines()[-1])
    assert history.keys() == plain[0].keys()
    for name, values in history.items():
        assert values == pytest.approx(plain[0][name], rel=1e-5)
    assert evaluated == pytest.approx(plain[1], rel=1e-5)
