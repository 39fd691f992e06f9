"""Activations are measured on as many samples as it takes, and no more."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from matex.apoptosis.criteria import measure
from matex.apoptosis.graph.trace import groups_of, trace


def network(*hidden: Any, shape: tuple[int, ...] = (6,)) -> Any:
    return keras.Sequential([keras.Input(shape), *hidden, layers.Dense(3)])


def needed(model: Any, most: int = 10_000) -> int:
    net = trace(model)
    return measure.samples_needed(net, groups_of(net), most)


def test_dense_layers_take_some_for_each_unit() -> None:
    assert needed(network(layers.Dense(16, "relu"))) == 1024
    assert needed(network(layers.Dense(1500, "relu"), layers.Dense(16, "relu"))) == 3000
    assert needed(network(layers.Dense(1500, "relu")), 2048) == 2048, "there are no more"


@pytest.mark.parametrize(
    "model",
    [
        network(layers.Conv1D(16, 3), layers.Flatten(), shape=(8, 2)),
        network(layers.Conv1D(16, 3), layers.Conv1D(16, 3), layers.Flatten(), shape=(8, 2)),
        network(layers.LSTM(16), shape=(8, 2)),
        network(layers.Dense(16), layers.Dense(16), shape=(8, 2)),
    ],
    ids=["flattened", "convolved", "recurrent", "positions"],
)
def test_what_occurs_several_times_in_a_sample_takes_all(model: Any) -> None:
    assert needed(model) == 10_000


def test_those_who_are_needed_are_all_looked_at() -> None:
    """The second moments of the units are those over every row that goes through."""
    model = network(layers.Dense(16, "relu", name="hidden"))
    net = trace(model)
    groups = groups_of(net)
    x = np.random.default_rng(0).normal(size=(needed(model), 6)).astype(np.float32)
    ((sums,),) = views = measure.views(groups, np.zeros(measure.numbers(groups)))
    measure.add(model, net, groups, [(0, x[:300]), (300, x[300:])], len(x), views)
    units = np.asarray(model.get_layer("hidden")(x), np.float64)
    rows = np.hstack([units, np.ones((len(x), 1))])
    assert sums == pytest.approx(rows.T @ rows, rel=1e-6)
