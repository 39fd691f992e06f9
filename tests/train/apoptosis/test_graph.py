"""Removals from random graphs of every kind of layer: exact where they can be, and contained."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keras import layers, ops

from matex.apoptosis.criteria import measure
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.criteria.weight_statistics import statistics
from matex.apoptosis.cut import rebuild, surgery
from matex.apoptosis.cut.masking import Masks
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import Group, groups_of, trace
from matex.apoptosis.graph.units import occurrences
from matex.apoptosis.group_statistics import Limits
from matex.errors import Unsupported
from tests.train.random_graphs import ENDS, IMAGES, SEQUENCES, build


def copy_unit(net: Network, group: Group, giver: int, taker: int) -> None:
    """Make *taker* do what *giver* does, whatever that is."""
    readers = {(id(r.kernel.variable), r.kernel.axis) for r in net.readings}
    for key, binding in net.bindings.items():
        if key not in readers:
            places = occurrences(net.units.roots(binding.units), group.members)
            value = binding.variable.numpy()
            front = np.moveaxis(value, binding.axis, 0)
            for place in places:
                if place[giver] >= 0 and place[taker] >= 0:
                    front[place[taker]] = front[place[giver]]
            binding.variable.assign(value)


def remove(
    model: Any,
    sample: np.ndarray,
    group: Group,
    net: Network,
    most: int,
    *,
    among: list[int],
    criterion: str = "gram",
) -> set[int]:
    """Choose *most* units *among* these, and hand over their work; their roots."""
    others = np.setdiff1d(np.arange(group.width), among)
    parts = (*group.parts, (others, len(others)))
    (sums,) = measure.views([group], np.zeros(measure.numbers([group])))
    measure.add(model, net, [group], [(0, sample)], len(sample), [sums])
    facts = statistics(net, group, sums, incoming=True)
    row = CRITERIA[criterion]
    removal = row.choose(facts, Limits(most, np.inf, parts), 0)
    given = row.transfers(facts, removal.kept, removal.removed)
    surgery.take_over(net, group, removal, given)
    return set(group.members[removal.removed].tolist())


CASES = st.one_of(
    st.tuples(st.just("images"), st.lists(st.sampled_from(sorted(IMAGES)), max_size=3)),
    st.tuples(st.just("sequences"), st.lists(st.sampled_from(sorted(SEQUENCES)), max_size=2)),
)


def check(kind: str, blocks: list[str], end: str, seed: int, criterion: str = "gram") -> None:
    """Duplicates die out of every group at once, and nobody sees a difference.

    Where statistics are of several units a duplicate counts in them; there, nobody sees a
    difference between a trial, in which masks leave the dead out, and the cut.
    """
    model, sample = build(kind, blocks, end, seed)
    net = trace(model)
    groups = groups_of(net)
    assert groups
    for group in groups:
        if group.width >= 4:
            copy_unit(net, group, 0, group.width - 1)
            copy_unit(net, group, 2, 1)
    before = model(sample, training=False).numpy()
    shapes = {v.path: tuple(v.shape) for v in model.weights}
    dead: set[int] = set()
    for group in groups:
        limits = [(places, least) for places, least in group.parts if len(places) - 2 < least]
        if not limits and group.width >= 4:
            twins = [0, 1, 2, group.width - 1]
            dead |= remove(model, sample, group, net, 2, among=twins, criterion=criterion)
    tolerance = 1e-5 * max(1.0, float(np.abs(before).max()))
    with Masks(net, lambda: None) as masks:
        masks.leave_out(dead)
        if net.norms:
            before = model(sample, training=False).numpy()
        np.testing.assert_allclose(model(sample, training=False), before, atol=tolerance)
        rebuild.cut(model, net, dead, masks.bindings)
    np.testing.assert_allclose(model(sample, training=False), before, atol=tolerance)
    if "both-stepwise" not in blocks:  # Keras loads two layers where a wrapper shares one
        reload(model, sample, before, tolerance)
    touched = {
        b.variable.path for b in net.bindings.values() if set(net.units.roots(b.units)) & dead
    }
    for variable in model.weights:
        assert (tuple(variable.shape) != shapes[variable.path]) == (variable.path in touched)


def reload(model: Any, sample: np.ndarray, before: np.ndarray, tolerance: float) -> None:
    """Make *model* anew from what it says of itself: it computes the same."""
    again = keras.Model.from_config(model.get_config())
    assert {tuple(v.shape) for v in again.weights} == {tuple(v.shape) for v in model.weights}
    again.set_weights(model.get_weights())
    np.testing.assert_allclose(again(sample, training=False), before, atol=tolerance)


@pytest.mark.parametrize("block", sorted(IMAGES))
def test_each_kind_of_image_layer(block: str) -> None:
    check("images", [block], "mean" if block == "gate" else "flat", 3)


@pytest.mark.parametrize("block", sorted(SEQUENCES))
def test_each_kind_of_sequence_layer(block: str) -> None:
    check("sequences", [block], "flat", 4)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(CASES, st.sampled_from(sorted(ENDS)), st.integers(0, 1000))
def test_cuts_of_random_graphs_keep_the_function(
    case: tuple[str, list[str]], end: str, seed: int
) -> None:
    check(*case, end, seed)


@pytest.mark.parametrize("criterion", ["projection", "angle"])
def test_criteria_that_look_at_weights(criterion: str) -> None:
    check("images", ["normalised", "residual", "depthwise"], "flat", 5, criterion)
    check("sequences", ["lstm", "attention"], "mean", 6, criterion)


def test_dead_and_constant_units_leave_without_a_trace() -> None:
    model, sample = build("images", ["valid"], "mean", 1)
    net = trace(model)
    for group in groups_of(net)[1:]:
        for number in group.sources:
            for part in net.sources[number].parts:
                value = part.variable.numpy()
                np.moveaxis(value, part.axis, 0)[:2] = 0.0
                if value.ndim == 1:
                    value[1] = 0.8
                part.variable.assign(value)
    before = model(sample, training=False).numpy()
    dead: set[int] = set()
    for group in groups_of(net)[1:]:
        dead |= remove(model, sample, group, net, 2, among=[0, 1])
    rebuild.cut(model, net, dead)
    np.testing.assert_allclose(model(sample, training=False), before, atol=1e-5)


def test_channels_first_and_flatten_run_over_the_same_units() -> None:
    inputs = keras.Input((4, 4, 3))
    x = layers.Flatten()(layers.Conv2D(9, 1, name="c")(inputs))
    net = trace(keras.Model(inputs, layers.Dense(2, name="d")(x)))
    (group,) = groups_of(net)
    (reading,) = group.readings
    places = occurrences(net.units.roots(reading.kernel.units), group.members)
    np.testing.assert_array_equal(places, np.arange(16)[:, None] * 9 + np.arange(9))


def test_a_layer_that_a_wrapper_calls_too_is_one_layer() -> None:
    inputs = keras.Input((5, 16))
    dense = layers.Dense(16, "relu", name="both")
    hidden = layers.Dense(16, "relu", name="hidden")(inputs)
    wrapped = layers.TimeDistributed(dense)(inputs)
    joined = layers.Concatenate()([wrapped, dense(hidden), layers.Dense(12, name="free")(hidden)])
    net = trace(keras.Model(inputs, layers.Dense(3)(layers.Flatten()(joined))))
    assert [group.name for group in groups_of(net)] == ["both", "free"]


@pytest.mark.parametrize("steps", [None, 3])
def test_steps_that_are_not_fixed_keep_what_a_wrapper_wraps(steps: int | None) -> None:
    inputs = keras.Input((steps, 6))
    x = layers.TimeDistributed(layers.Dense(16, "relu", name="wrapped"), name="w")(inputs)
    net = trace(keras.Model(inputs, layers.Dense(3, name="end")(x)))
    assert [group.name for group in groups_of(net)] == (["wrapped"] if steps else [])
    assert ("w" in net.left_alone) == (steps is None)


def test_what_is_left_alone_is_named() -> None:
    class Odd(layers.Layer):
        def call(self, x: Any) -> Any:
            return x

    inputs = keras.Input((5,))
    x = layers.Dense(20, name="a")(inputs)
    x = layers.Dense(20, name="b")(Odd(name="odd")(x))
    x = layers.Dense(20, "softmax", name="c")(x)
    net = trace(keras.Model(inputs, layers.Dense(20, name="d")(x)), exclude=["b"])
    assert groups_of(net) == []
    assert set(net.left_alone) == {"odd", "b", "c"}
    assert "Odd" in net.left_alone["odd"]


def _turned(layer: layers.Layer) -> tuple[Any, Any]:
    """Input and output of *layer* where units of another one lie along its steps."""
    inputs = keras.Input((6, 5))
    x = layers.Permute((2, 1))(layers.Dense(16)(inputs))
    return inputs, layer(x)


def _given_states(layer: layers.Layer) -> tuple[Any, Any]:
    inputs = keras.Input((6, 5))
    x, *states = layers.Bidirectional(layers.GRU(12, return_state=True, return_sequences=True))(
        inputs
    )
    return inputs, layer(x, initial_state=states)


def _uneven() -> tuple[Any, Any]:
    inputs = keras.Input((6, 5))
    backward = layers.GRU(9, go_backwards=True)
    return inputs, layers.Bidirectional(
        layers.GRU(16), merge_mode=None, backward_layer=backward, name="odd"
    )(inputs)[0]


TYING = [
    layers.LSTM(9, activation="softmax", name="odd"),
    layers.GRU(9, recurrent_activation="softmax", name="odd"),
    layers.SimpleRNN(9, activation="softmax", name="odd"),
    layers.Bidirectional(layers.GRU(9, activation="softmax"), name="odd"),
    layers.RNN(layers.LSTMCell(9, recurrent_activation="softmax"), name="odd"),
]


def _after_dense(layer: layers.Layer) -> tuple[Any, Any]:
    inputs = keras.Input((6, 5))
    return inputs, layer(layers.Dense(16)(inputs))


def _reducing(make: Any) -> tuple[Any, Any]:
    inputs = keras.Input((6, 5))
    output = make(layers.Dense(16)(inputs))
    output._keras_history.operation.name = "odd"
    return inputs, output


def _attending(layer: Any, *, lora: bool) -> tuple[Any, Any]:
    inputs = keras.Input((16, 5))
    x = layers.Dense(16)(inputs)
    x = x if lora else layers.Permute((2, 1))(x)
    x = layer(x, x)
    if lora:
        layer._query_dense.enable_lora(2)
    return inputs, x


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (_turned(layers.Dense(9, name="odd")), "does not sum over the units"),
        (_turned(layers.Conv1D(9, 3, name="odd")), "does not sum over the units"),
        (_turned(layers.LSTM(9, name="odd")), "does not sum over the units"),
        (_turned(layers.Bidirectional(layers.GRU(9), name="odd")), "does not sum over the units"),
        (_turned(layers.RNN(layers.GRUCell(9), name="odd")), "does not sum over the units"),
        (
            _given_states(layers.Bidirectional(layers.GRU(12), name="odd")),
            "its states are given",
        ),
        (_uneven(), "different numbers of units"),
        *((_after_dense(layer), "ties the units together") for layer in TYING),
        (_reducing(lambda x: ops.mean(x, -1)), "down to one number"),
        (_reducing(lambda x: ops.cumsum(x, -1)), "mixes the units"),
        (_reducing(lambda x: layers.Dot(1)([layers.Flatten()(x)] * 2)), "sums over the units"),
        *(
            (_attending(layer, lora=lora), "a LoRA adapter" if lora else "does not sum")
            for lora in (False, True)
            for layer in (
                layers.MultiHeadAttention(2, 4, name="odd"),
                layers.GroupQueryAttention(4, 4, 2, name="odd"),
            )
        ),
    ],
    ids=[
        *("dense", "convolution", "lstm", "bidirectional", "cells", "states"),
        "uneven",
        *(f"softmax in {type(layer).__name__}" for layer in TYING),
        *("mean", "sum", "dot"),
        *("attention", "grouped", "attention with LoRA", "grouped with LoRA"),
    ],
)
def test_why_a_layer_is_left_alone_is_true(ends: tuple[Any, Any], why: str) -> None:
    inputs, output = ends
    net = trace(keras.Model(inputs, layers.Dense(2)(layers.Flatten()(output))))
    assert why in net.left_alone["odd"]


@pytest.mark.parametrize("by_function", [False, True])
def test_a_gate_of_one_unit_for_all_is_no_hindrance(by_function: bool) -> None:
    inputs = keras.Input((6, 5))
    x = layers.Dense(16, "relu", name="x")(inputs)
    gate = layers.Softmax(axis=1)(layers.Dense(1, name="gate")(x))
    weighed = x * gate if by_function else layers.Multiply()([gate, x])
    net = trace(keras.Model(inputs, layers.Dense(2)(layers.Flatten()(weighed))))
    assert [(group.name, group.width) for group in groups_of(net)] == [("x", 16)]
    assert net.left_alone == {}


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_stateful_model_is_refused_by_the_layer(wrapped: bool) -> None:
    inputs = keras.Input(batch_shape=(4, 6, 5))
    layer = layers.LSTM(16, stateful=True, name="kept")
    x = layers.Bidirectional(layer, name="kept")(inputs) if wrapped else layer(inputs)
    model = keras.Model(inputs, layers.Dense(2)(layers.Dense(16)(x)))
    with pytest.raises(Unsupported, match="kept, which is stateful"):
        trace(model)


def test_the_least_that_stays_of_groups_is_counted_in_filters() -> None:
    inputs = keras.Input((4, 4, 32))
    x = layers.Conv2D(64, 1, groups=8, name="grouped")(inputs)
    (group,) = groups_of(trace(keras.Model(inputs, layers.Conv2D(3, 1)(x))))
    assert group.width == 8
    assert [least for _, least in group.parts] == [1]


def test_a_subclassed_model_is_followed_or_refused_by_name() -> None:
    class Followed(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = layers.Dense(16, "relu"), layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.outer(self.inner(x) * 2.0)

    class Refused(Followed):
        def call(self, x: Any) -> Any:
            return self.outer(self.inner(x.numpy()))

    sample = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    model = Followed()
    model(sample)
    net = trace(model)
    (group,) = groups_of(net)
    copy_unit(net, group, 0, 7)
    before = model(sample).numpy()
    rebuild.cut(model, net, remove(model, sample, group, net, 1, among=[0, 7]))
    np.testing.assert_allclose(model(sample), before, atol=1e-5)
    assert model.inner.units == 15
    other = Refused()
    other.build((None, 4))
    with pytest.raises(Unsupported, match="Refused"):
        trace(other)


def _halved(x: Any) -> Any:
    return 0.5 * ops.tanh(x)


class OwnLeakyReLU(layers.LeakyReLU):
    """An activation whose class says nothing of what it does."""


@pytest.mark.parametrize(
    ("activation", "scales"),
    [
        (layers.LeakyReLU(0.1), True),
        (layers.ReLU(), True),
        (layers.ReLU(6.0), False),
        (layers.ReLU(threshold=0.1), False),
        (layers.ELU(), False),
        (layers.Activation("tanh"), False),
        (layers.Activation(layers.Activation(layers.LeakyReLU())), True),
        (keras.activations.sparse_sigmoid, False),
    ],
)
def test_layers_of_keras_given_as_an_activation_are_one(activation: Any, scales: bool) -> None:
    keras.utils.set_random_seed(5)
    hidden = layers.Dense(12, activation=activation)
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.Dense(3)(hidden(inputs)))
    net = trace(model)
    (group,) = groups_of(net)
    assert set(net.units.inhomogeneous_roots()) == (
        set() if scales else set(group.members.tolist())
    )
    copy_unit(net, group, 0, 11)
    sample = np.random.default_rng(1).normal(size=(50, 6)).astype(np.float32)
    before = model(sample).numpy()
    rebuild.cut(model, net, remove(model, sample, group, net, 1, among=[0, 11]))
    np.testing.assert_allclose(model(sample), before, atol=1e-5)
    assert hidden.units == 11
    reload(model, sample, before, 1e-5)


@pytest.mark.parametrize(
    ("activation", "why"),
    [
        ("softmax", "ties the units together"),
        (keras.activations.log_softmax, "ties the units together"),
        (layers.Softmax(), "ties the units together"),
        (layers.Activation("softmax"), "ties the units together"),
        (
            layers.Softmax(axis=1),
            "matex does not know whether its activation works on each unit alone",
        ),
        (_halved, "matex does not know whether its activation works on each unit alone"),
        (OwnLeakyReLU(), "matex does not know whether its activation works on each unit alone"),
        (layers.PReLU(), "its activation has weights"),
    ],
)
def test_why_an_activation_keeps_units_is_true(activation: Any, why: str) -> None:
    dense = layers.Dense(12, name="a", activation=activation)
    model = keras.Sequential([keras.Input((5, 4)), dense, layers.Dense(3, activation=_halved)])
    model(np.zeros((2, 5, 4)))
    net = trace(model)
    assert groups_of(net) == [] and set(net.left_alone) == {"a"}
    assert why in net.left_alone["a"]


@pytest.mark.parametrize(
    "ends", [[layers.Dense(3, "softmax")], [layers.Dense(3), layers.Softmax()]]
)
def test_that_outputs_are_kept_is_no_news(ends: list[Any]) -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(16, "softmax", name="gate"), *ends])
    assert set(trace(model).left_alone) == {"gate"}
