"""Other models, copies of weights and callbacks beside a model that shrinks in a fit."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import matex
from tests.train.apoptosis.test_callback import fit, make, once
from tests.train.apoptosis.test_rebuild import cut_every_third


class Calls(keras.callbacks.Callback):
    """Makes a call at the end of each epoch."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._call()


def test_a_model_that_shares_layers_is_traced_and_trained_anew() -> None:
    model, x, y = make()
    half = keras.Model(model.inputs, model.get_layer("b").output)
    half.compile(keras.optimizers.Adam(), "mse")
    half.fit(x, np.zeros((len(x), 40)), verbose=0)
    half.predict(x, verbose=0)
    cut_every_third(model)
    np.testing.assert_allclose(half.predict(x, verbose=0), half(x), atol=1e-6)
    assert half.output_shape == (None, model.get_layer("b").units)
    half.fit(x, np.zeros((len(x), model.get_layer("b").units)), verbose=0)
    fit(model, x, y, [])


class Halves(keras.Model):
    """A train step in which another optimizer changes the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = layers.Dense(32, "relu", name="a"), layers.Dense(1)
        self.others = {"head": keras.optimizers.SGD(0.01, momentum=0.9)}

    def call(self, x: Any) -> Any:
        return self.head(self.body(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x))
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply(gradients[:2], variables[:2])
        self.others["head"].apply(gradients[2:], variables[2:])
        return {"loss": loss}


def test_the_slots_of_every_optimizer_of_a_model_are_cut() -> None:
    _, x, y = make()
    model = Halves()
    model.build((None, 6))
    model.compile("adam", "mse")
    apoptosis = once(exclude=[], delta=None, pruning_ratio=0.5)
    fit(model, x, y, apoptosis, epochs=3)
    assert model.get_layer("a").units < 32
    slots = model.others["head"].variables[2:]
    assert [v.shape for v in slots] == [v.shape for v in model.head.trainable_variables]


@pytest.mark.parametrize("name", ["Adam", "ScheduleFreeAdamW"])
def test_copies_of_weights_get_what_the_weights_get(name: str) -> None:
    """Else averages bring back the weights from before the removed units gave their work away."""
    kind = getattr(keras.optimizers, name, None)
    if kind is None:
        pytest.skip(f"Keras {keras.__version__} has no {name}")

    def outputs(optimizer: Any) -> np.ndarray:
        model, x, y = make()
        model.compile(optimizer, "binary_crossentropy")
        optimizer.build(model.trainable_variables)
        fit(model, x, y, once("natural", delta=None), epochs=2)
        assert model.get_layer("a").units < 64
        return np.asarray(model(x))

    averaging = {} if name == "ScheduleFreeAdamW" else {"use_ema": True}
    wanted = outputs(keras.optimizers.SGD(0.0))
    np.testing.assert_allclose(outputs(kind(0.0, **averaging)), wanted, atol=1e-4)


def test_a_copy_of_weights_gives_away_its_own_rows_of_removed_units() -> None:
    """An average that lags behind the weights computes behind the event what it did before."""
    model, x, y = make()
    optimizer = keras.optimizers.SGD(0.0, use_ema=True)
    model.compile(optimizer, "binary_crossentropy")
    seen: list[np.ndarray] = []

    def look() -> None:
        averages, now = optimizer._model_variables_moving_average, model.get_weights()
        for average, value in zip(averages, () if seen else now, strict=False):
            average.assign(2 * value)
        model.set_weights([average.numpy() for average in averages])
        seen.append(np.asarray(model(x)))
        model.set_weights(now)

    event = once("conservative", delta=None)
    fit(model, x, y, [Calls(look), event, Calls(look)], epochs=1)
    assert model.get_layer("a").units < 64
    np.testing.assert_allclose(seen[1], seen[0], atol=1e-4)


def test_an_optimizer_that_makes_weights_of_its_slots_makes_those_of_the_event() -> None:
    """Ftrl does in each update; else the kept units lose what they took over in the next one."""
    model, x, y = make()
    optimizer = keras.optimizers.Ftrl(0.1, l1_regularization_strength=1e-6)
    model.compile(optimizer, "binary_crossentropy")
    optimizer.build(model.trainable_variables)
    for linear, variable in zip(optimizer._linears, model.trainable_variables, strict=True):
        linear.assign(-variable * 0.1**0.5 / 0.1)  # else its first update forgets the weight
    fit(model, x, y, once("natural", delta=None))
    assert model.get_layer("a").units < 64
    wanted = np.asarray(model(x))
    assert wanted.std() > 0.01
    optimizer.apply([tf.zeros(v.shape) for v in model.trainable_variables])
    np.testing.assert_allclose(model(x), wanted, atol=1e-4)


def test_early_stopping_restores_weights_of_the_present_shapes() -> None:
    """The best since the last event, also where an epoch before it was better."""
    model, x, y = make()
    values = iter([0.1, 0.5, 0.3, 0.4, 0.6, 0.7])
    seen: list[np.ndarray] = []

    class Value(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["value"] = next(values)

    look = Calls(lambda: seen.append(model.get_layer("out").get_weights()[0]))
    stop = keras.callbacks.EarlyStopping("value", patience=2, mode="min", restore_best_weights=True)
    fit(model, x, y, [Value(), once(), stop, look], epochs=6)
    assert len(seen) == 5 and model.get_layer("a").units < 64
    assert (stop.best, stop.best_epoch) == (0.3, 2)
    np.testing.assert_array_equal(model.get_layer("out").get_weights()[0], seen[2])


def test_what_callbacks_evaluate_does_not_judge_an_event() -> None:
    model, x, y = make()
    other = keras.Sequential([keras.Input((3,)), layers.Dense(1)])

    def calls() -> None:
        model.evaluate(-x[:50], 1 - y[:50], verbose=0)
        other.predict(x[:50, :3], verbose=0)

    apoptosis = matex.Apoptosis("natural", first_epoch=1, every=1, last_epoch=2, verbose=0)
    fit(model, x, y, [Calls(calls), apoptosis], epochs=3, validation_data=(x[:90], y[:90]))
    losses = [event["loss_before"] for event in apoptosis.events]
    model, x, y = make()
    apoptosis = matex.Apoptosis("natural", first_epoch=1, every=1, last_epoch=2, verbose=0)
    fit(model, x, y, apoptosis, epochs=3, validation_data=(x[:90], y[:90]))
    assert losses == pytest.approx([event["loss_before"] for event in apoptosis.events], rel=1e-5)


def test_weights_satisfy_their_constraints_behind_an_event() -> None:
    _, x, y = make()
    kinds: dict[str, Any] = {"kernel_constraint": "non_neg", "bias_constraint": "non_neg"}
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(24, "relu", name="a", **kinds),
            layers.Dense(24, "tanh", name="b", **kinds),
            layers.Dense(1, "sigmoid", kernel_constraint=keras.constraints.UnitNorm()),
        ]
    )
    model.compile("adam", "binary_crossentropy")
    found: list[float] = []

    def look() -> None:
        found.extend(float(w.numpy().min()) for one in model.layers[:2] for w in one.weights)
        found.append(float(1e-6 - abs(np.linalg.norm(model.layers[2].kernel.numpy()) - 1)))

    apoptosis = once(exclude=[], delta=None, pruning_ratio=0.5)
    fit(model, x, y, [apoptosis, Calls(look)], epochs=4)
    assert model.count_params() < 24 * 7 + 24 * 25 + 25
    assert min(found) >= 0


def test_a_frozen_layer_keeps_the_values_that_it_keeps() -> None:
    model, x, y = make()
    frozen = model.get_layer("b")
    frozen.trainable = False
    model.compile("adam", "binary_crossentropy")
    kernel, bias = (weight.numpy() for weight in frozen.weights)
    fit(model, x, y, once(exclude=[], delta=None, pruning_ratio=0.5), epochs=4)
    kept = frozen.kernel.matex_kept
    rows, columns = (kept.get(axis, np.arange(kernel.shape[axis])) for axis in (0, 1))
    assert len(rows) < len(kernel)
    np.testing.assert_array_equal(frozen.kernel, kernel[np.ix_(rows, columns)])
    np.testing.assert_array_equal(frozen.bias, bias[columns])
