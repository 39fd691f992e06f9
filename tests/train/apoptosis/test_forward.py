"""A trace gives what going layer by layer does, at each size of a model, or is not used."""

from __future__ import annotations

import logging
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from matex.apoptosis.cut import rebuild
from matex.apoptosis.graph.forward import Forward, Traced
from matex.apoptosis.graph.trace import groups_of, trace

ROWS = 24
SHAPES: dict[str, tuple[int, ...]] = {"dense": (5,), "image": (6, 6, 2), "sequence": (7, 4)}
HIDDEN: dict[str, list[Any]] = {
    "dense": [
        lambda: layers.Dense(12, "relu", kernel_regularizer="l2"),
        layers.BatchNormalization,
        lambda: layers.Dense(9, "tanh"),
    ],
    "image": [
        lambda: layers.Conv2D(8, 3, activation="relu"),
        layers.BatchNormalization,
        layers.Flatten,
    ],
    "sequence": [lambda: layers.LSTM(8, return_sequences=True), lambda: layers.GRU(6)],
}


class Counted(keras.Sequential):
    """Counts how often Python goes through it."""

    walks = 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.walks += 1
        return super().call(*args, **kwargs)


def make(shape: tuple[int, ...], hidden: list[Any]) -> tuple[Counted, tuple[Any, ...]]:
    keras.utils.set_random_seed(1)
    model = Counted([keras.Input(shape), *hidden, layers.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    generator = np.random.default_rng(2)
    x = tf.constant(generator.normal(size=(ROWS, *shape)), tf.float32)
    return model, (x, tf.constant(generator.integers(0, 3, ROWS)))


def cut_every_third(model: Any) -> None:
    net = trace(model)
    rebuild.cut(model, net, {int(root) for g in groups_of(net) for root in g.members[::3]})


def walks_of(forward: Forward, batch: tuple[Any, ...]) -> int:
    """Number of Python's passes through the model for this batch, whose results must be right."""
    model = forward.model
    wanted, loss = Forward(model)(batch)
    before = model.walks
    outputs, got = forward(batch)
    walks: int = model.walks - before
    np.testing.assert_allclose(outputs, wanted, atol=1e-6)
    assert got == pytest.approx(loss, rel=1e-5)
    return walks


def test_nothing_warns_of_a_trace_for_each_event(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow would, of the fifth, as if the function were the user's; twice in a process."""
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    model, batch = make((5,), [layers.Dense(12, "relu")])
    forward = Traced(model)
    for _ in range(7):
        forward(batch)
        forward.forget()
    assert "retracing" not in caplog.text


@pytest.mark.parametrize("kind", HIDDEN)
def test_python_goes_through_a_model_for_the_first_batch_of_a_size_alone(kind: str) -> None:
    model, batch = make(SHAPES[kind], [layer() for layer in HIDDEN[kind]])
    forward = Traced(model)
    walks = [walks_of(forward, batch), walks_of(forward, tuple(part[:7] for part in batch))]
    for variable in model.trainable_variables:
        variable.assign(0.5 * variable)
    walks.append(walks_of(forward, batch))
    assert walks == [2, 0, 0]
    for _ in range(2):
        cut_every_third(model)
        again = 1 if kind == "dense" else 2  # whose one trace serves at all sizes
        assert [walks_of(forward, batch) for _ in range(3)] == [again, 0, 0]


def test_the_loss_is_without_regularisation_and_by_weight() -> None:
    model, (x, y) = make((5,), [layer() for layer in HIDDEN["dense"]])
    weight = tf.constant(np.arange(ROWS) % 2, tf.float32)
    forward = Traced(model)
    losses = keras.losses.sparse_categorical_crossentropy(y, model(x, training=False))
    for _ in range(2):
        assert forward((x, y))[1] == pytest.approx(float(np.mean(losses)), rel=1e-5)
    weighed = Traced(model)
    for _ in range(2):
        assert weighed((x, y, weight))[1] == pytest.approx(
            float(np.sum(losses * weight) / ROWS), rel=1e-5
        )


class WithoutPenalties(keras.Model):
    """A loss of its own, which leaves the regularizers out."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
        training: bool = True,
    ) -> Any:  # fmt: skip
        return keras.ops.mean(keras.ops.square(y - y_pred)) + self.penalties()

    def penalties(self) -> Any:
        return 0.0


class WithPenalties(WithoutPenalties):
    """A loss of its own, which adds what the layers add."""

    def penalties(self) -> Any:
        return tf.add_n(self.losses)


class WithPenaltiesOfLayers(WithoutPenalties):
    """A loss of its own, which asks layer by layer."""

    def penalties(self) -> Any:
        return sum(sum(layer.losses) for layer in self.layers)


class ByKeras(WithoutPenalties):
    """A loss that Keras adds up, with the arguments of old."""

    def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:  # type: ignore[override]
        return keras.Model.compute_loss(self, x, y, y_pred, sample_weight)


@pytest.mark.parametrize(
    "kind", [keras.Model, WithoutPenalties, WithPenalties, WithPenaltiesOfLayers, ByKeras]
)
@pytest.mark.parametrize("forward", [Forward, Traced])
def test_the_loss_is_without_regularisation_however_it_is_computed(forward: Any, kind: Any) -> None:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((5,))
    hidden = layers.Dense(12, "relu", kernel_regularizer=keras.regularizers.L2(1.0))(inputs)
    hidden = layers.ActivityRegularization(l2=1.0)(hidden)
    model = kind(inputs, layers.Dense(1, bias_regularizer="l1")(hidden))
    model.compile("adam", "mse")
    x = np.random.default_rng(2).normal(size=(ROWS, 5)).astype(np.float32)
    y = x[:, :1]
    judge = forward(model)
    wanted = float(np.mean(np.square(y - np.asarray(model(x)))))
    assert [judge((x, y))[1] for _ in range(2)] == pytest.approx([wanted] * 2, rel=1e-5)
    assert float(sum(model.losses)) > 1, "the penalties are those of before again"


def test_a_trace_that_is_wrong_at_another_size_is_not_used_there() -> None:
    factor = 1.0  # a number of Python's, which a trace takes as it is when it is made

    def loss(y: Any, outputs: Any) -> Any:
        return factor * keras.losses.sparse_categorical_crossentropy(y, outputs)

    model, batch = make((5,), [layers.Dense(12, "relu")])
    model.compile("adam", loss)
    forward = Traced(model)
    assert [walks_of(forward, batch) for _ in range(2)] == [2, 0]
    factor = 2.0
    cut_every_third(model)
    assert [walks_of(forward, batch) for _ in range(3)] == [1, 1, 1]
    cut_every_third(model)
    assert [walks_of(forward, batch) for _ in range(2)] == [2, 0], "made anew"


class Impatient(layers.Layer):
    """Wants numbers where a trace has none."""

    def call(self, x: Any) -> Any:
        return x + float(np.asarray(x).max() > 100)


def test_a_model_that_cannot_be_traced_goes_layer_by_layer() -> None:
    model, batch = make((5,), [layers.Dense(12, "relu"), Impatient()])
    forward = Traced(model)
    assert [walks_of(forward, batch) for _ in range(2)] == [2, 1]


def test_a_model_that_is_to_run_eagerly_does() -> None:
    model, batch = make((5,), [layers.Dense(12, "relu")])
    model.run_eagerly = True
    forward = Traced(model)
    assert [walks_of(forward, batch) for _ in range(2)] == [1, 1]


def test_without_a_loss_there_are_outputs() -> None:
    model, (x, y) = make((5,), [layers.Dense(12)])
    bare = keras.Model(model.inputs, model.outputs)
    for forward, batch in ((Traced(model), (x,)), (Traced(bare), (x, y))):
        outputs, loss = forward(batch)
        assert loss is None
        np.testing.assert_allclose(outputs, model(x, training=False), atol=1e-6)


def test_metrics_and_weights_are_left_alone() -> None:
    model, batch = make(SHAPES["image"], [layer() for layer in HIDDEN["image"]])
    model.fit(*batch, verbose=0)
    before = [value.numpy() for value in model.variables]
    forward = Traced(model)
    for _ in range(3):
        forward(batch)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, variable.path)
