"""Layers with a mask, such as an Embedding of padded words makes, lose units as others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from matex.apoptosis.graph.rules.sequence import states_of
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.one_shot import prune

WIDTH = 24

MASKED: dict[str, Callable[[Any], Any]] = {
    "LSTM": layers.LSTM(20, name="own"),
    "GRU": layers.GRU(20, return_sequences=True, name="own"),
    "state": lambda x: layers.LSTM(WIDTH, name="own")(x, initial_state=[x[:, 0], x[:, 1]]),
    "Bidirectional": layers.Bidirectional(layers.SimpleRNN(20), name="own"),
    "RNN": layers.RNN([layers.LSTMCell(20), layers.GRUCell(18)], name="own"),
    "TimeDistributed": layers.TimeDistributed(layers.Dense(20, name="own")),
    "BatchNormalization": lambda x: layers.Dense(20, name="own")(layers.BatchNormalization()(x)),
    "Concatenate": lambda x: layers.Dense(20, name="own")(
        layers.Concatenate()([x, layers.Dense(9)(x)])
    ),
    "MultiHeadAttention": lambda x: layers.MultiHeadAttention(6, 4, name="own")(
        query=layers.Dense(20)(x), value=layers.Dense(22)(x), key=x
    ),
}


@pytest.mark.parametrize("name", sorted(MASKED))
def test_layers_with_a_mask_are_cut(name: str, tmp_path: Path) -> None:
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,), dtype="int32")
    words = layers.Embedding(30, WIDTH, mask_zero=True, name="words")(inputs)
    made = MASKED[name](words)
    model = keras.Model(inputs, layers.Dense(3)(layers.Flatten()(made)))
    net = trace(model)
    removable = {net.sources[i].layer.name for group in groups_of(net) for i in group.sources}
    assert {"words", "own"} <= removable
    rows = np.random.default_rng(0).integers(1, 30, (64, 6))
    rows[:32, 4:] = 0
    outcome = prune(model, rows, ratio=0.3)
    assert outcome.refused == () and outcome.gone >= 0.3
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded(rows), model(rows), atol=1e-5)


def test_states_behind_a_mask_are_measured_as_they_are() -> None:
    words = layers.Embedding(40, 8, mask_zero=True)
    layer = layers.LSTM(6)
    rows = np.array([[3, 0, 5, 0, 0], [1, 2, 3, 4, 5]])
    layer(words(rows))
    states = np.asarray(states_of(layer, words(rows)))
    layer.return_sequences = True
    np.testing.assert_allclose(states, np.asarray(layer(words(rows)))[:, :-1], atol=1e-6)
    np.testing.assert_array_equal(states[0, 1], states[0, 0])  # padding changes nothing
