"""Exports of a checkpoint to plain Keras: models, weights, archives, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import checkpoints
import matex
from ci.patience import patience
from matex.checkpointing import export, model_state
from matex.cli import main
from matex.errors import InputError

layers = keras.layers
X = np.random.default_rng(0).normal(size=(5, 6, 6, 2)).astype("float32")


def made() -> Any:
    keras.utils.set_random_seed(3)
    image = keras.Input((6, 6, 2))
    x = layers.BatchNormalization()(layers.Conv2D(4, 3)(image))
    x = layers.Dropout(0.3)(layers.Flatten()(x))
    model = keras.Model(image, layers.Dense(3)(x))
    model.compile("adam", "mse")
    model.fit(X, np.ones((5, 3)), epochs=2, verbose=0)
    return model


def saved(model: Any, directory: Path, *, architecture: str | None = None) -> Path:
    text = model_state.architecture_of(model) if architecture is None else architecture
    snapshot = model_state.hold(model, {"step": 1}, architecture=text, extra={}).snapshot()
    return checkpoints.Store(directory).save(snapshot)


@pytest.fixture(scope="module")
def model() -> Any:
    return made()


@pytest.fixture(scope="module")
def path(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(model, tmp_path_factory.mktemp("saved"))


def test_a_model_comes_back(model: Any, path: Path) -> None:
    for place in (path, path.parent):
        again = matex.load(place)
        np.testing.assert_array_equal(again.predict(X, verbose=0), model.predict(X, verbose=0))
    assert "uninitialized" not in repr(keras.Sequential([keras.Input((2,)), layers.Dense(1)]))


PLAIN = """
import sys, keras, numpy as np
assert not any(name.split(".")[0] in ("matex", "checkpoints", "ft") for name in sys.modules)
model = keras.models.load_model("out.keras")
x = np.load("x.npy")
whole = model.predict(x, verbose=0)
model.set_weights([0 * w for w in model.get_weights()])
model.load_weights("out.weights.h5")
np.save("y.npy", np.stack([whole, model.predict(x, verbose=0)]))
"""


def test_plain_keras_reads_what_was_exported(model: Any, path: Path, tmp_path: Path) -> None:
    for name in ("out.keras", "out.weights.h5"):
        assert main(["checkpoint", "export", str(path), str(tmp_path / name)]) == 0
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", PLAIN], cwd=tmp_path, check=True, timeout=patience(100))
    for found in np.load(tmp_path / "y.npy"):
        np.testing.assert_allclose(found, model.predict(X, verbose=0), rtol=1e-6, atol=1e-6)
    assert {p.name for p in tmp_path.iterdir()} == {
        "out.keras", "out.weights.h5", "x.npy", "y.npy"
    }  # fmt: skip


def test_an_archive_is_half_as_large_and_no_run_continues_from_it(
    model: Any, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.h5"
    assert main(["checkpoint", "archive", str(path), str(out)]) == 0
    small = checkpoints.read_snapshot(out)
    whole = checkpoints.read_snapshot(path)
    floats = [n for n, a in whole.weights.items() if a.dtype == np.float32]
    assert all(small.weights[n].nbytes * 2 == whole.weights[n].nbytes for n in floats)
    assert not small.optimizer
    with pytest.raises(InputError, match="Received: an archive"):
        model_state.restore(model, small)
    again = matex.load(out)
    for mine, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2**-8)
    with pytest.raises(SystemExit, match="2"):
        main(["checkpoint", "archive", str(path), str(out)])
    assert "--force replaces it" in capsys.readouterr().err


def test_weights_go_into_a_model_made_by_code(model: Any, path: Path, tmp_path: Path) -> None:
    undescribed = saved(model, tmp_path, architecture="")
    with pytest.raises(InputError, match="only its own code can make"):
        matex.load(undescribed)
    other = keras.models.clone_model(model)
    matex.load_weights(other, undescribed)
    np.testing.assert_array_equal(other.predict(X, verbose=0), model.predict(X, verbose=0))
    with pytest.raises(InputError, match="of another model"):
        matex.load_weights(keras.Sequential([keras.Input((2,)), layers.Dense(1)]), path)


def test_a_lambda_is_refused_unless_it_is_allowed_by_name(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Lambda(lambda x: 2 * x, name="twice")])
    path = saved_untrained(model, tmp_path)
    with pytest.raises(InputError, match="Lambda 'twice', whose code would be run"):
        matex.load(path)
    with pytest.raises(InputError, match="Lambda 'twice'"):
        matex.load(path, allow_lambda=["thrice"])
    assert matex.load(path, allow_lambda=["twice"])(np.ones((1, 2))).numpy().tolist() == [[2, 2]]


def saved_untrained(model: Any, directory: Path, text: str | None = None) -> Path:
    snapshot = checkpoints.Snapshot(
        weights={v.path: v.numpy() for v in model.variables},
        cursor={"step": 1},
        architecture=model.to_json() if text is None else text,
    )
    return checkpoints.Store(directory).save(snapshot)


def altered(change: Any) -> str:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3, name="dense")])
    description = json.loads(model.to_json())
    change(description["config"]["layers"][1])
    return json.dumps(description)


CRAFTED = {
    "a module of somebody else's": (
        lambda layer: layer.update(module="antigravity", class_name="Thing"),
        "antigravity.Thing; give it as custom_objects",
    ),
    "code hidden in an activation": (
        lambda layer: layer["config"].update(
            activation={"class_name": "__lambda__", "config": {"code": "AAAA"}}
        ),
        "whose code would be run",
    ),
    "a layer of a terabyte": (
        lambda layer: layer["config"].update(units=10**11),
        r"wants shape \(2, 100000000000\)",
    ),
    "no such class": (
        lambda layer: layer.update(class_name="Nonsense"),
        "cannot read the description",
    ),
    "no name of a class": (lambda layer: layer.pop("class_name"), "cannot read the description"),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_description_is_refused(case: str, tmp_path: Path) -> None:
    change, said = CRAFTED[case]
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3)])
    before = set(sys.modules)
    with pytest.raises(InputError, match=said) as caught:
        export.load(saved_untrained(model, tmp_path, altered(change)))
    assert "\n" not in str(caught.value)
    assert "antigravity" not in set(sys.modules) - before
    # Nothing is left behind that would ask for memory later.
    assert keras.Sequential([keras.Input((2,)), layers.Dense(1)]).count_params() == 3


@pytest.mark.parametrize("text", ["[1, 2", "[]", '"text"', "[" * 5000, '{"class_name": 3}'])
def test_what_describes_no_model_is_refused(text: str, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3)])
    with pytest.raises(InputError):
        export.load(saved_untrained(model, tmp_path, text))
