"""Graphs of steps for their usual number of rows: what shows only in a graph for any number."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from matex import keras_hooks
from matex.data import Batches
from matex.exchange import Header, Layout, Mpi4pyExchange
from matex.keras_hooks.script_model import script_model
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.control import Control
from matex.steps.graphs import specialization
from matex.steps.graphs.hot_shape import HotShape
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.step import Step

pytestmark = pytest.mark.usefixtures("optimizers_that_can_be_replaced")

ROWS, LENGTH, WORDS, WIDTH = 8, 5, 40, 6
STEPS = 6
Weights = list[np.ndarray]


class OfOneRank(Mpi4pyExchange):
    """An exchange whose sums are the parts; no MPI."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(self, *parts: np.ndarray) -> list[np.ndarray]:
        assert [part.shape for part in parts] == self.layout.shapes
        return list(parts)


def words(step: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(step).integers(0, WORDS, (rows, LENGTH)).astype("int32")
    return x, (x.sum(1) % 3).astype("int32")


def twice(step: int, rows: int = ROWS) -> tuple[np.ndarray, list[np.ndarray]]:
    """Inputs, and targets of two outputs."""
    x, y = words(step, rows)
    return x, [y, y.astype("float32")]


def control(rows: int = ROWS) -> np.ndarray:
    return Control(1.0, 0, rows, Header(samples=rows, learning_rate=1.0), [(0, rows)]).array()


def fitted(*, after: int, monkeypatch: pytest.MonkeyPatch, refuses: bool) -> tuple[int, Weights]:
    """Number of traces of a step of one update, and weights and metrics after some steps."""
    monkeypatch.setattr(specialization, "HotShape", lambda **_: HotShape(after=after, short_s=60))
    traced: list[Any] = []

    def loss(y: Any, predicted: Any) -> Any:
        rows = predicted.shape[0]
        traced.append(rows)
        if refuses and rows == ROWS:
            raise ValueError("for any number of rows alone")
        return keras.losses.sparse_categorical_crossentropy(y, predicted, from_logits=True)

    keras.utils.set_random_seed(4)
    inputs = keras.Input((LENGTH,), dtype="int32")
    hidden = layers.Embedding(WORDS, WIDTH, mask_zero=True)(inputs)
    hidden = layers.LSTM(WIDTH)(layers.GaussianNoise(0.1, seed=3)(hidden))
    model = keras.Model(inputs, [layers.Dense(3)(hidden), layers.Dense(1)(hidden)])
    model.compile(keras.optimizers.Adam(0.01), [loss, "mse"])  # with a metric for each
    batches = Batches(*twice(0))
    keras_hooks.build(model, keras_hooks.as_data(batches.signature))
    step = Step(model, batches.signature, capacity=SlotCapacity(2 * ROWS))
    assert step.has_slots
    assert step.layout is not None
    step.connect(OfOneRank(step.layout))
    for number in range(STEPS):
        step.fused(tf.nest.map_structure(tf.constant, twice(number)), control())
    step.fused(tf.nest.map_structure(tf.constant, twice(STEPS, 3)), control(3))
    metrics = [variable.numpy() for variable in model.metrics_variables]
    assert len(metrics) == 6
    return len(traced), [*model.get_weights(), *metrics]


@pytest.mark.parametrize("refuses", [False, True], ids=["taken", "refused-by-the-script"])
def test_a_specialized_recurrent_step_trains_alike(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has an embedding, whose gradient is exchanged as slices, and noise by rows."""
    usual, wanted = fitted(after=100, monkeypatch=monkeypatch, refuses=refuses)
    count, weights = fitted(after=2, monkeypatch=monkeypatch, refuses=refuses)
    assert count == usual + 1
    for one, other in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def looped(
    *, after: int, monkeypatch: pytest.MonkeyPatch, differs: bool
) -> tuple[int, list[np.ndarray]]:
    """Number of traces of a step of a script's loop, and what its steps returned."""
    monkeypatch.setattr(specialization, "HotShape", lambda **_: HotShape(after=after, short_s=60))
    keras.utils.set_random_seed(4)
    flat = [keras.Input((LENGTH,), dtype="int32"), layers.Embedding(WORDS, WIDTH), layers.Flatten()]
    model = keras.Sequential([*flat, layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    seeds = keras.random.SeedGenerator(5)
    traced: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        traced.append(x.shape[0])
        with tf.GradientTape() as tape:
            noise = keras.random.normal((tf.shape(x)[0], 3), seed=seeds)
            each = keras.losses.sparse_categorical_crossentropy(
                y, model(x) + 0.1 * noise, from_logits=True
            )
            loss = tf.reduce_mean(each)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, weights)
        if differs and x.shape[0] is not None:
            gradients, weights = gradients[:-1], weights[:-1]
        optimizer.apply(gradients, weights)
        return loss, each

    def as_data(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(given), {}

    signature = (tf.TensorSpec((None, LENGTH), tf.int32), tf.TensorSpec((None,), tf.int32))
    of_script = script_model("step", step, signature, as_data)
    shared = SeveralUpdatesStep(
        of_script, signature, as_data=as_data, rows=ROWS, capacity=SlotCapacity(2 * ROWS)
    )
    assert shared.updates.has_slots
    shared.exchanges.connect(OfOneRank)
    returned = []
    for number in range(STEPS):
        part = shared.run(tuple(map(tf.constant, words(number))), control())
        logs = shared.commit([tf.constant(part)])
        returned += [np.asarray(value) for value in logs.values()]
    assert returned[1].shape == (ROWS,)
    return len(traced), [*returned, *model.get_weights()]


@pytest.mark.parametrize("differs", [False, True], ids=["the-same", "another-for-known-rows"])
def test_a_step_of_a_loop(differs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has slices, noise by rows, and returns a value for each row."""
    usual, wanted = looped(after=100, monkeypatch=monkeypatch, differs=differs)
    count, values = looped(after=2, monkeypatch=monkeypatch, differs=differs)
    assert count == usual + 1
    for one, other in zip(values, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_rows_that_a_step_of_one_update_returns_are_known_for_known_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(specialization, "HotShape", lambda **_: HotShape(after=2, short_s=60))
    keras.utils.set_random_seed(4)
    shaped = [layers.Embedding(WORDS, WIDTH), layers.LSTM(WIDTH), layers.Dense(3)]
    model = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), *shaped])
    optimizer = keras.optimizers.SGD(0.1)
    traced: list[Any] = []

    def step(x: Any, y: Any) -> Any:
        traced.append(x.shape[0])
        with tf.GradientTape() as tape:
            each = keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)
            loss = tf.reduce_mean(each)
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return each

    def as_data(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(given), {}

    signature = (tf.TensorSpec((None, LENGTH), tf.int32), tf.TensorSpec((None,), tf.int32))
    of_script = script_model("step", step, signature, as_data)
    shared = Step(of_script, signature, as_data=as_data, rows=ROWS)
    assert shared.layout is not None
    shared.connect(OfOneRank(shared.layout))
    for number in range(STEPS):
        logs = shared.fused(tuple(map(tf.constant, words(number))), control())
    assert traced.count(ROWS) == 1
    assert [np.shape(value) for value in logs.values()] == [(ROWS,)]
    size, sized = shared._functions._fused._size, shared._functions._fused._sized
    assert (size, sized is None) == (ROWS, False)
