"""``matex prune``: a trained model becomes a smaller file that does nearly the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from keras import layers

from matex.apoptosis.cut.symbolic import Shapes
from matex.apoptosis.graph.network import Network
from matex.cli import main
from tests.train.runs import execute

PRUNE = [sys.executable, "-m", "matex", "prune"]


@keras.saving.register_keras_serializable()
class Own(keras.Model):
    """A model of a class of its own, which makes its layers at their first sizes."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.inner, self.outer = layers.Dense(32, "relu"), layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trained model, and the data it was trained on."""
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
            layers.Dense(2, "softmax", name="end"),
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
    line, reached, header, *rows = capsys.readouterr().out.splitlines()
    assert " -> " in line and " units gone, in " in line
    assert header.split()[:3] == ["group", "units", "cost"]
    assert rows[0].startswith("  a") and "48 -> " in rows[0]
    assert "50.0% were asked" in reached and "on 400 rows that were not measured on" in reached
    assert not any("left alone" in row for row in rows)
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
    with h5py.File(folder / "flat.h5", "w") as file:
        file["x"] = np.zeros((9, 64), np.float32)
    with h5py.File(folder / "nan.h5", "w") as file:
        file["x"] = np.pad(np.full((1, 8, 8, 1), np.nan), ((2, 3), (0, 0), (0, 0), (0, 0)))
    with h5py.File(folder / "z.h5", "w") as file:
        file["z"] = np.zeros(5)
    broken = keras.models.load_model(folder / "m.keras")
    broken.get_layer("a").kernel.assign(np.full((864, 48), np.inf))
    broken.save(folder / "nan.keras")
    inputs = [keras.Input((4,), name="left"), keras.Input((4,), name="right")]
    sums = layers.Dense(2)(layers.Dense(32)(layers.Add()(inputs)))
    keras.Model(inputs, sums).save(folder / "two.keras")
    own = Own()
    own(np.zeros((1, 4), np.float32))
    own.save(folder / "own.keras")
    with h5py.File(folder / "wide.h5", "w") as file:
        file["x"], file["y"] = np.zeros((9, 8, 8, 1), np.float32), np.zeros((9, 3), np.float32)
    model, data = str(folder / "m.keras"), str(folder / "d.h5")
    whole = keras.models.load_model(folder / "m.keras")
    keras.Sequential([keras.Input((8, 8, 1)), *whole.layers]).save(folder / "plain.keras")
    by_loss = ["--data", data, "--ratio", "0.5", "--criterion", "oba"]
    for arguments, told in (
        ([str(folder / "none.keras"), "--data", data, "--ratio", "0.5"], "no file"),
        ([model, "--ratio", "0.5"], "--data"),
        ([model, "--data", data, "--ratio", "2"], "ratio must be between"),
        (
            [model, "--data", data, "--ratio", "0.5", "--criterion", "luck"],
            "criterion must be one of gram",
        ),
        ([str(folder / "plain.keras"), *by_loss], "wants the loss on rows"),
        ([str(folder / "bad.keras"), "--data", data, "--ratio", "0.5"], "bad.keras, 8 bytes"),
        ([model, "--data", data, "--ratio", "0.5", "--out", "no/o.keras"], "existing folder"),
        ([model, "--data", data, "--ratio", "0.5", "--out", "/proc/o.keras"], "cannot be written"),
        ([model, "--data", data, "--ratio", "0.5", "--exclude", "aa"], "such as a. Received: 'aa'"),
        ([model, "--data", data, "--ratio", "0.99"], "ratio must be at most 0.9"),
        ([model, "--data", data, "--ratio", "0.5", "--samples", "0"], "samples must be"),
        ([model, "--data", str(folder / "flat.h5"), "--ratio", "0.5"], "shape (8, 8, 1)"),
        ([model, "--data", str(folder / "nan.h5"), "--ratio", "0.5"], "in 1 of 3 rows of x"),
        ([model, "--data", str(folder / "z.h5"), "--ratio", "0.5"], "is named. Received: z"),
        ([model, "--data", str(folder / "wide.h5"), "--ratio", "0.5"], "y of the shape (3,) a row"),
        ([str(folder / "nan.keras"), "--data", data, "--ratio", "0.5"], "infinity in a/kernel"),
        ([str(folder / "two.keras"), "--data", data, "--ratio", "0.5"], "hold left, right"),
        ([str(folder / "own.keras"), "--data", data, "--ratio", "0.5"], "Received: a Own"),
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
    monkeypatch.setattr(Shapes, "complaint", lambda _: "")  # which the event itself would find
    command = ["prune", str(folder / "m.keras"), "--data", str(folder / "d.h5"), "--ratio", "0.5"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "none was written" in said and "--exclude" in said
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "m.keras"]


def test_models_of_several_inputs_take_rows_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.utils.set_random_seed(1)
    inputs = [keras.Input((4,), name="left"), keras.Input((6,), name="right")]
    x = layers.Concatenate()([layers.Dense(40, "relu", name=f"of_{t.name}")(t) for t in inputs])
    keras.Model(inputs, layers.Dense(2, name="end")(x)).save(tmp_path / "m.keras")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        generator = np.random.default_rng(0)
        file["right"], file["left"] = generator.random((30, 6)), generator.random((30, 4))
    command = ["prune", str(tmp_path / "m.keras"), "--data", str(tmp_path / "d.h5")]
    assert main([*command, "--ratio", "0.5"]) == 0
    sizes, reached, warning, _, *rows = capsys.readouterr().out.splitlines()
    assert re.match(r"  of_left +40 -> ", rows[0]) and "on 15 rows" in reached
    assert warning.startswith("warning: 15 rows") and "80 rows in the file" in warning
    assert "no loss, which wants a compiled model" in sizes


def test_a_loss_of_several_outputs_takes_rows_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,), name="row")
    shared = layers.Dense(40, "relu")(inputs)
    outputs = [layers.Dense(1, "sigmoid", name="kind")(shared), layers.Dense(2, name="at")(shared)]
    model = keras.Model(inputs, outputs)
    model.compile("adam", ["binary_crossentropy", "mse"])
    model.save(tmp_path / "m.keras")
    x = np.random.default_rng(0).random((80, 6)).astype(np.float32)
    kind, at = np.ones((80, 1), np.float32), x[:, :2]
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"], file["kind"], file["at"] = x, kind, at
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["x"], file["y"] = x, kind
    command = ["prune", str(tmp_path / "m.keras"), "--ratio", "0.3", "--data"]
    assert main([*command, str(tmp_path / "d.h5")]) == 0
    loss = model.evaluate(x[1::2], [kind[1::2], at[1::2]], verbose=0, return_dict=True)["loss"]
    assert f"loss {loss:.4f} -> " in capsys.readouterr().out
    with h5py.File(tmp_path / "named.h5", "w") as file:
        file["row"], file["kind"], file["at"] = x, kind, at
    assert main([*command, str(tmp_path / "named.h5"), "--force"]) == 0
    assert f"loss {loss:.4f} -> " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, str(tmp_path / "y.h5"), "--force"])
    assert "hold kind, at, as the model's outputs are named" in capsys.readouterr().err


REGISTERED = """
import keras

@keras.saving.register_keras_serializable()
class Doubled(keras.layers.Layer):
    def call(self, x):
        return 2 * x
"""


def test_classes_of_the_model_s_own_are_imported(folder: Path) -> None:
    """Processes of their own load it: here the class would be known already."""
    (folder / "own_layers.py").write_text(REGISTERED)
    made = """
import keras, own_layers
layers = [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(32, "relu")]
layers += [keras.layers.Dense(16, "relu"), own_layers.Doubled(), keras.layers.Dense(2)]
keras.Sequential(layers).save("own.keras")
"""
    execute([sys.executable, "-c", made], directory=folder)
    command = [*PRUNE, "own.keras", "--data", "d.h5", "--ratio", "0.3"]
    refused = execute(command, directory=folder)
    assert refused.returncode == 2
    assert "Could not locate class 'Doubled'" in refused.stderr
    assert "--import" in refused.stderr
    missing = execute([*command, "--import", "absent.py"], directory=folder)
    assert "Received: absent.py (FileNotFoundError" in missing.stderr
    done = execute([*command, "--import", "own_layers.py"], directory=folder)
    assert (done.returncode, (folder / "own-pruned.keras").exists()) == (0, True), done.stderr
