"""A cut that would break the model is found on some rows, put back as it was, and named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import matex
from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.apoptosis.cut.symbolic import Shapes
from matex.apoptosis.graph.rules import dense, shapes, table
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.one_shot import prune


class Weighed(layers.Layer):
    """Multiplies by numbers that are no weights: with fewer units it fails."""

    def call(self, x: Any) -> Any:
        return x * ops.arange(1.0, 33.0)


class Turned(layers.Layer):
    """Gives each unit the place of its neighbour: with fewer it computes something else."""

    def call(self, x: Any) -> Any:
        return ops.roll(x, 5, axis=-1)


class Noisy(layers.Layer):
    """Is noisy also where nothing is trained."""

    def call(self, x: Any) -> Any:
        return x + 0.1 * keras.random.normal(ops.shape(x))


def make(layer: layers.Layer) -> tuple[Any, np.ndarray, np.ndarray]:
    keras.utils.set_random_seed(3)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(256, 12)).astype(np.float32)
    y = (x[:, :6].sum(1) > x[:, 6:].sum(1)).astype(np.float32)
    inputs = keras.Input((12,))
    hidden = layers.Dense(32, "relu", name="before")(inputs)
    hidden = layers.Dense(32, "relu", name="after")(layer(hidden))
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(hidden))
    model.compile("adam", "binary_crossentropy")
    model.fit(x, y, epochs=2, verbose=0)
    return model, x, y


@pytest.mark.parametrize("kind", [Weighed, Turned])
def test_what_a_wrong_rule_would_break_stays(
    kind: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(table._RULES, kind, shapes.pass_on)  # which is wrong about it
    model, x, y = make(kind())
    outcome = prune(model, x, y, ratio=0.3)
    assert model.get_layer("before").units == 32 > model.get_layer("after").units
    assert outcome.refused == ("before",)
    assert "before" in outcome.left_alone
    assert [change.layer for change in outcome.changes] == ["after"]
    assert "leaves before alone" in capsys.readouterr().out
    assert outcome.loss_after == pytest.approx(
        model.evaluate(x[1::2], y[1::2], verbose=0), rel=1e-4
    )
    model.fit(x, y, verbose=0)


class WeighedInTraining(layers.Layer):
    """Is what it is given, but in training, where it fails with fewer units."""

    def call(self, x: Any, training: bool = False) -> Any:
        return x * ops.arange(1.0, 33.0) if training else x


class Stored(layers.Dense):
    """Passes on what ``Dense`` makes; its option for the number of units is another."""

    @property
    def units(self) -> int:
        return 32

    @units.setter
    def units(self, value: int) -> None:
        """Forget *value*."""


def test_what_would_fail_in_training_alone_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(table._RULES, WeighedInTraining, shapes.pass_on)
    model, x, y = make(WeighedInTraining(name="weighed"))
    outcome = prune(model, x, y, ratio=0.3)
    assert outcome.refused == ("before",)
    assert "with fewer of its units weighed fails (ValueError)" in capsys.readouterr().out
    model.fit(x, y, verbose=0)


def test_what_could_not_be_made_again_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(table._RULES, Stored, dense.dense)
    with keras.saving.custom_object_scope({"Stored": Stored}):
        model, x, y = make(Stored(32, name="stored"))
        outcome = prune(model, x, y, ratio=0.3)
        assert outcome.refused == ("stored",)
        assert "cannot be made again from its options" in capsys.readouterr().out
        again = keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_allclose(again(x), model(x), atol=1e-5)


class Scores(keras.Model):
    """Scores words by the table of its embedding, which is more than its layers tell."""

    def __init__(self) -> None:
        super().__init__()
        self.table = layers.Embedding(12, 16, name="table")
        self.inner = layers.Dense(24, "relu", name="inner")
        self.outer = layers.Dense(16, name="outer")

    def call(self, x: Any) -> Any:
        hidden = self.outer(self.inner(self.table(x)))
        return ops.matmul(hidden, ops.transpose(self.table.embeddings))


@pytest.mark.parametrize("nested", [False, True])
def test_a_subclassed_model_whose_call_would_fail_stays(
    nested: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(0).integers(0, 12, (64, 3))
    scores = model = Scores()
    model(x)
    if nested:
        inputs = keras.Input((3,), dtype="int32")
        model = keras.Model(inputs, scores(inputs))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    apoptosis = matex.Apoptosis("aggressive", first_epoch=1, every=1, delta=None, data=(x, x))
    model.fit(x, x, epochs=3, callbacks=[apoptosis], verbose=0)
    assert "leaves table alone: with fewer of its units" in capsys.readouterr().out
    assert scores.table.embeddings.shape == (12, 16)
    assert scores.inner.units < 24 or nested  # made again from its options it would have 24
    assert model.predict(x, verbose=0).shape == (64, 3, 12)


def test_what_the_proof_of_shapes_looks_at_stays_as_it_is() -> None:
    layer = layers.ActivityRegularization(0.1)
    model, x, _ = make(layer)
    model(x)
    before = random.getstate(), [float(loss) for loss in model.losses], everything(model)
    proof = Shapes(model)
    assert proof.complaint() == ""
    now = random.getstate(), [float(loss) for loss in model.losses], everything(model)
    assert now[:2] == before[:2]
    assert_same(now[2], before[2])


@pytest.mark.parametrize(
    "layer",
    [
        layers.Rescaling(np.linspace(0.5, 2.0, 32)),
        layers.Rescaling(2.0, offset=np.linspace(0.5, 2.0, 32)),
        layers.Dropout(0.1, noise_shape=(None, 32)),
        layers.GaussianDropout(0.1),
    ],
    ids=["scale", "offset", "noise shape", "no numbers"],
)
def test_numbers_of_a_layer_that_are_no_weights_are_seen(layer: Any) -> None:
    model, x, y = make(layer)
    outcome = prune(model, x, y, ratio=0.5)
    assert outcome.refused == ()
    has_numbers = not isinstance(layer, layers.GaussianDropout)
    assert (model.get_layer("before").units == 32) == has_numbers
    assert (layer.name in outcome.left_alone) == has_numbers
    model.fit(x, y, verbose=0)


def test_noise_is_not_taken_for_a_broken_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table._RULES, Noisy, shapes.pass_on)
    model, x, y = make(Noisy())
    outcome = prune(model, x, y, ratio=0.5)
    assert outcome.refused == ()
    assert model.get_layer("before").units < 32


def test_a_run_does_not_try_again_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(table._RULES, Turned, shapes.pass_on)
    model, x, y = make(Turned())
    apoptosis = matex.Apoptosis(first_epoch=1, every=1, delta=None, pruning_ratio=0.4, data=(x, y))
    model.fit(x, y, epochs=4, callbacks=[apoptosis], verbose=0)
    assert (
        capsys.readouterr().out.count(
            "leaves before alone: with fewer of its units the model computes"
        )
        == 1
    )
    assert len(apoptosis.events) > 1
    assert model.get_layer("before").units == 32 > model.get_layer("after").units


@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_a_cut_is_undone_as_if_it_had_never_been(optimizer: str, tmp_path: Path) -> None:
    inputs = keras.Input((8, 8, 3))
    hidden = layers.Conv2D(12, 3, name="c")(inputs)
    hidden = layers.BatchNormalization()(hidden)
    hidden = layers.Reshape((36, 12))(hidden)
    hidden = layers.MultiHeadAttention(2, 6, output_shape=(12,))(hidden, hidden)
    hidden = layers.GRU(16)(hidden)
    model = keras.Model(inputs, layers.Dense(2)(hidden))
    model.compile(optimizer, "mse")
    x = np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype(np.float32)
    y = np.ones((16, 2), np.float32)
    model.fit(x, y, verbose=0)
    net = trace(model)
    wanted = everything(model)
    dead = {int(root) for group in groups_of(net) for root in group.members[::3]}
    undo = rebuild.cut(model, net, dead)
    assert model.count_params() < sum(v.size for v in wanted["weights"])
    undo()
    assert_same(everything(model), wanted)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-5)


def everything(model: Any) -> dict[str, Any]:
    return {
        "config": model.get_config(),
        "weights": [v.numpy() for v in model.weights],
        "optimizer": [v.numpy() for v in model.optimizer.variables],
        "kept": rebuild.history_of(model, model.weights),
        "shapes": [
            tuple(tensor.shape)
            for call in keras_hooks.calls_in(keras_hooks.functional_of(model))
            for tensor in call.outputs
        ],
        "built from": [getattr(layer, "_build_shapes_dict", None) for layer in model.layers],
    }


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if name in ("weights", "optimizer"):
            for a, b in zip(found[name], value, strict=True):
                np.testing.assert_array_equal(a, b)
        else:
            assert found[name] == value, name
