"""Importances by the loss are its derivatives, and add up over the rows however these are cut."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import matex
from matex.apoptosis.criteria import derivatives
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.graph.units import occurrences
from matex.apoptosis.one_shot import prune
from matex.apoptosis.samples import sample_of
from matex.errors import InputError, Unsupported

ROWS = 12


def sequential(*hidden: Any, shape: tuple[int, ...]) -> Any:
    model = keras.Sequential([keras.Input(shape), *hidden, layers.Dense(3, name="end")])
    model.compile("sgd", "mse")
    return model


def dense() -> Any:
    hidden = [layers.Dense(10, "tanh"), layers.Dense(9, "softplus")]
    return sequential(*hidden, shape=(5,))


def residual() -> Any:
    """Units that several layers make, and several read."""
    inputs = keras.Input((5,))
    trunk = layers.Dense(10)(inputs)
    trunk = layers.Add()([trunk, layers.Dense(10)(layers.Activation("tanh")(trunk))])
    model = keras.Model(inputs, layers.Dense(3, name="end")(trunk))
    model.compile("sgd", "mse")
    return model


def convolved() -> Any:
    hidden = [layers.Conv2D(9, 3, activation="softplus"), layers.Conv2D(10, 2), layers.Flatten()]
    return sequential(*hidden, shape=(6, 5, 2))


def separated() -> Any:
    hidden = [layers.Conv2D(9, 2), layers.SeparableConv2D(9, 2, depth_multiplier=2)]
    return sequential(*hidden, layers.GlobalAveragePooling2D(), shape=(5, 5, 2))


def recurrent() -> Any:
    return sequential(layers.LSTM(9, return_sequences=True), layers.LSTM(10), shape=(4, 3))


def attentive() -> Any:
    x = inputs = keras.Input((4, 3))
    x = layers.Dense(12, "tanh")(x)
    x = layers.MultiHeadAttention(4, 3)(x, x)
    model = keras.Model(inputs, layers.Dense(3, name="end")(x))
    model.compile("sgd", "mse")
    return model


MODELS = (dense, residual, convolved, separated, recurrent, attentive)


@pytest.fixture(autouse=True)
def precise() -> Any:
    keras.utils.set_random_seed(3)
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # which Keras may have made of floatx before
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


def rows_for(model: Any, count: int = ROWS) -> tuple[np.ndarray, Any]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, *model.inputs[0].shape[1:]))
    y = [generator.normal(size=(count, *output.shape[1:])) for output in model.outputs]
    return x, y if len(y) > 1 else y[0]


def sums(criterion: str, model: Any, *data: Any, ends: tuple[int, ...] = ()) -> list[np.ndarray]:
    """The sums over the rows, cut at *ends* into the shares of several ranks."""
    net = trace(model)
    groups = groups_of(net)
    sample = sample_of(dict(zip(("x", "y", "sample_weight"), data, strict=False)), 1000)
    losses = derivatives.Losses(model, sample.size, sample.batches([(0, 1)])[0])
    spans = list(itertools.pairwise([0, *ends, sample.size]))
    total = np.zeros(len(losses.denominators))
    for span in spans:
        losses.add_denominators(sample.batches([span]), total)
    losses.denominators = total
    wanted = CRITERIA[criterion].derivatives
    assert wanted is not None
    vector = np.zeros(derivatives.numbers(wanted, groups))
    into = derivatives.views(wanted, groups, vector)
    for span in spans:
        derivatives.add(wanted, losses, net, groups, sample.batches([span]), into)
    return into


class Gates:
    """The losses of the rows when weights that multiply units are scaled; by differences."""

    def __init__(self, model: Any, x: np.ndarray, y: np.ndarray) -> None:
        self.model, self.x, self.y = model, x, y
        self.net = trace(model)
        self.groups = groups_of(self.net)
        readings = [reading for group in self.groups for reading in group.readings]
        self.first = {
            id(r.kernel.variable): (r.kernel.variable, r.kernel.variable.numpy()) for r in readings
        }

    def scaled(self, scales: dict[tuple[int, int], float]) -> np.ndarray:
        """The losses with each (group, unit) of *scales* multiplied."""
        values = {key: value.copy() for key, (_, value) in self.first.items()}
        for (number, unit), scale in scales.items():
            group = self.groups[number]
            for reading in group.readings:
                roots = self.net.units.roots(reading.kernel.units)
                places = occurrences(roots, group.members[unit : unit + 1]).ravel()
                rows = np.moveaxis(values[id(reading.kernel.variable)], reading.kernel.axis, 0)
                rows[places[places >= 0]] *= scale
        for key, (variable, _) in self.first.items():
            variable.assign(values[key])
        outputs = np.asarray(self.model(self.x, training=False))
        for variable, value in self.first.values():
            variable.assign(value)
        return np.square(outputs - self.y).reshape(len(self.x), -1).mean(1)


@pytest.mark.parametrize("make", MODELS)
def test_taylor_is_the_mean_square_of_the_slope_by_a_gate(make: Any) -> None:
    model = make()
    x, y = rows_for(model)
    gates, step = Gates(model, x, y), 1e-5
    for number, found in enumerate(sums("taylor", model, x, y)):
        assert found.shape == (1, gates.groups[number].width)
        for unit in range(0, found.shape[1], 4):
            high, low = (gates.scaled({(number, unit): 1 + s}) for s in (step, -step))
            slopes = (high - low) / (2 * step)
            assert found[0, unit] == pytest.approx(np.square(slopes).sum(), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("make", MODELS)
def test_oba_is_the_share_of_the_second_order_expansion(make: Any) -> None:
    model = make()
    x, y = rows_for(model)
    gates, step = Gates(model, x, y), 1e-3
    everything = [(n, u) for n, group in enumerate(gates.groups) for u in range(group.width)]

    def loss(number: int, unit: int, alone: float, together: float) -> float:
        """The summed loss with w + alone (w of the unit) + together w."""
        scales = dict.fromkeys(everything, 1 + together)
        scales[number, unit] += alone
        return float(gates.scaled(scales).sum())

    for number, found in enumerate(sums("oba", model, x, y)):
        for unit in range(0, found.shape[1], 4):
            high, low = loss(number, unit, step, 0.0), loss(number, unit, -step, 0.0)
            assert found[0, unit] == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-6)
            corners = [loss(number, unit, a * step, b * step) for a in (1, -1) for b in (1, -1)]
            mixed = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * step**2)
            assert found[1, unit] == pytest.approx(mixed, rel=1e-3, abs=1e-5)


def test_the_shares_of_a_layer_that_is_quadratic_are_all_of_its_loss() -> None:
    """The expansion is the loss itself where the outputs are linear in the weights."""
    model = sequential(layers.Dense(10, "tanh"), shape=(5,))
    x, y = rows_for(model)
    first, second = sums("oba", model, x, y)[0]
    kernel = model.get_layer("end").kernel
    before = float(np.square(np.asarray(model(x)) - y).mean())
    kernel.assign(np.zeros(kernel.shape))
    after = float(np.square(np.asarray(model(x)) - y).mean())
    assert (0.5 * second - first).sum() / ROWS == pytest.approx(after - before)


def tagging() -> tuple[Any, Any, Any]:
    """A masked loss, which is divided by the words there are, beside one that is a sum."""
    inputs = keras.Input((6,), dtype="int32")
    hidden = layers.Embedding(20, 9, mask_zero=True)(inputs)
    hidden = layers.GRU(9, return_sequences=True)(hidden)
    ends = [layers.Dense(4, "softmax", name="tag")(hidden), layers.Dense(1, name="at")(hidden)]
    model = keras.Model(inputs, ends)
    model.compile("sgd", ["sparse_categorical_crossentropy", keras.losses.MeanSquaredError("sum")])
    generator = np.random.default_rng(0)
    x = generator.integers(1, 20, (ROWS, 6)).astype(np.int32)
    x[np.arange(6) >= generator.integers(1, 7, (ROWS, 1))] = 0
    return model, x, [x % 4, generator.normal(size=(ROWS, 6, 1))]


def weighted(reduction: str) -> tuple[Any, Any, Any, Any]:
    model = dense()
    model.compile("sgd", keras.losses.MeanSquaredError(reduction))
    return *(model, *rows_for(model)), np.random.default_rng(1).random(ROWS)


@pytest.mark.parametrize("criterion", ["taylor", "oba"])
@pytest.mark.parametrize(
    "make",
    [
        tagging,
        lambda: weighted("sum"),
        lambda: weighted("sum_over_batch_size"),
        lambda: weighted("mean_with_sample_weight"),
    ],
    ids=["masked", "sum", "mean", "weighted mean"],
)
def test_shares_of_the_rows_add_up_however_they_are_cut(make: Any, criterion: str) -> None:
    model, *data = make()
    whole = sums(criterion, model, *data)
    assert all(np.abs(one).max() > 0 for one in whole)
    for ends in ((5,), (1, 2, 9)):
        for one, other in zip(whole, sums(criterion, model, *data, ends=ends), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)


def test_weights_and_several_outputs_count_as_in_training() -> None:
    """The slopes of oba are those of the loss that Keras evaluates on the rows."""
    model, x, y = tagging()
    first, _ = sums("oba", model, x, y)[-1]
    kernels = [model.get_layer(name).kernel for name in ("tag", "at")]
    recurrent_kernel = next(v for v in model.weights if v.path.endswith("recurrent_kernel"))
    values, step, losses = [v.numpy() for v in (*kernels, recurrent_kernel)], 1e-5, []
    for scale in (1 + step, 1 - step):
        for variable, value in zip((*kernels, recurrent_kernel), values, strict=True):
            variable.assign(np.concatenate([scale * value[:1], value[1:]]))
        losses.append(float(model.compute_loss(x, y, model(x, training=False))))
    assert first[0] / ROWS == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("criterion", ["taylor", "oba"])
def test_without_a_loss_there_is_one_line(criterion: str) -> None:
    model = dense()
    x, y = rows_for(model, 40)
    apoptosis = matex.Apoptosis(criterion=criterion, data=(x,))
    with pytest.raises(InputError, match=r"Received: rows without y; compile .* 'gram'"):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[apoptosis])
    plain = keras.Model(model.inputs, model.outputs)
    for given in ((x,), (x, y)):
        with pytest.raises(InputError, match="Received: a model without such a loss") as caught:
            prune(plain, *given, ratio=0.1, criterion=criterion)
        assert "\n" not in str(caught.value)


class Rounded(layers.Layer):
    """A layer of NumPy's, which has no derivative."""

    def call(self, x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(np.copy, [x], x.dtype), x.shape)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def test_a_loss_without_derivatives_is_refused_in_one_line() -> None:
    hidden = layers.Dense(10, "tanh", name="inner")
    model = keras.Sequential([keras.Input((5,)), hidden, layers.Dense(3), Rounded()])
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = rows_for(model, 40)
    for criterion in ("taylor", "oba"):
        with pytest.raises(Unsupported, match="none by the units of inner, on which") as caught:
            prune(model, x, y, ratio=0.1, criterion=criterion)
        assert "\n" not in str(caught.value)


def test_a_loss_without_second_derivatives_serves_taylor_alone() -> None:
    hidden = [
        layers.Conv2D(12, 3),
        layers.Conv2D(2, 1),
        layers.UpSampling2D(2, "channels_last", "bicubic"),
    ]
    model = keras.Sequential([keras.Input((5, 5, 1)), *hidden])
    model.compile("sgd", "mse")
    x, y = rows_for(model, 40)
    with pytest.raises(Unsupported, match=r"wants .* second derivatives. Received: ") as caught:
        prune(model, x, y, ratio=0.1, criterion="oba")
    assert "\n" not in str(caught.value) and "take the criterion 'gram'" in str(caught.value)
    outcome = prune(model, x, y, ratio=0.1, criterion="taylor")
    assert outcome.parameters[1] < outcome.parameters[0]


@pytest.mark.parametrize("criterion", ["taylor", "oba"])
def test_a_model_that_is_to_run_eagerly_shrinks_while_it_trains(criterion: str) -> None:
    model = dense()
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = rows_for(model, 60)
    apoptosis = matex.Apoptosis(
        "natural", criterion, first_epoch=1, every=1, pruning_ratio=0.1, delta=None, verbose=0
    )
    before = model.count_params()
    model.fit(x, y, batch_size=20, epochs=3, verbose=0, callbacks=[apoptosis])
    assert model.count_params() <= before
    assert apoptosis.events
