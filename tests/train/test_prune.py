"""``matex prune``: a trained model becomes a smaller file that does nearly the same."""

from __future__ import annotations

from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras import layers

from matex.apoptosis.network import Network
from matex.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a trained model, and the data it was trained on."""
    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(800, 8, 8, 1)).astype(np.float32)
    y = (x[:, :4].mean((1, 2, 3)) > x[:, 4:].mean((1, 2, 3))).astype(np.uint8)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(24, 3, activation="relu", name="c"),
            layers.Flatten(),
            layers.Dense(48, "relu", name="a"),
            layers.Dense(2, "softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=5, verbose=0)
    model.save(tmp_path / "m.keras")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x_train"], file["y_train"] = x, y
    return tmp_path


def test_half_of_the_parameters_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["prune", str(folder / "m.keras"), "--data", str(folder / "d.h5"), "--ratio", "0.5"]
    assert main(command) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "c 24 -> " in line and "a 48 -> " in line
    before = keras.models.load_model(folder / "m.keras")
    after = keras.models.load_model(folder / "m-pruned.keras")
    assert 0.45 <= after.count_params() / before.count_params() <= 0.52
    with h5py.File(folder / "d.h5") as file:
        x, y = file["x_train"][()], file["y_train"][()]
    accuracies = [model.evaluate(x, y, verbose=0)[1] for model in (before, after)]
    assert accuracies[1] > accuracies[0] - 0.03
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    assert "--force" in capsys.readouterr().err
    assert main([*command, "--force", "--target", "flops", "--exclude", "a"]) == 0
    assert keras.models.load_model(folder / "m-pruned.keras").get_layer("a").units == 48
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "m-pruned.keras", "m.keras"]


def test_bad_input_gets_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.keras").write_bytes(b"no model")
    model, data = str(folder / "m.keras"), str(folder / "d.h5")
    for arguments, told in (
        ([str(folder / "none.keras"), "--ratio", "0.5"], "no file"),
        ([model, "--ratio", "0.5"], "--data"),
        ([model, "--data", data, "--ratio", "2"], "ratio must be between"),
        ([model, "--data", data, "--ratio", "0.5", "--criterion", "luck"], "criterion must be"),
        ([str(folder / "bad.keras"), "--data", data, "--ratio", "0.5"], "cannot be loaded"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["prune", *arguments])
        assert ended.value.code == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1 and told in lines[0]


def test_a_file_that_would_not_load_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Network, "size", lambda *_: None)  # options of layers stay as they were
    command = ["prune", str(folder / "m.keras"), "--data", str(folder / "d.h5"), "--ratio", "0.5"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "none was written" in said and "--exclude" in said
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "m.keras"]
