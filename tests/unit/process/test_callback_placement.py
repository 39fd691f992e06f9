"""Callbacks run on every rank or on the leader by what their class says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from matex.process.callback_placement import OnLeader, placed_callbacks


class Proxy(keras.callbacks.Callback):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return [name]


class Sending(keras.callbacks.Callback):  # type: ignore[misc]
    on_one_rank = True


@pytest.mark.parametrize(
    ("given", "is_on_leader"),
    [(Proxy, False), (Sending, True), (keras.callbacks.Callback, False)],
)
def test_a_callback_runs_on_one_rank_if_its_class_says_so(given: Any, is_on_leader: bool) -> None:
    callback = given()
    (placed,) = placed_callbacks(
        [callback], verbose=0, leads=lambda: True, alone=lambda call: call()
    )
    assert isinstance(placed, OnLeader) == is_on_leader
    assert is_on_leader or placed is callback


def test_the_next_leader_goes_on_with_the_numbers_of_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    leading = False
    board = keras.callbacks.TensorBoard(tmp_path, update_freq=5, write_graph=False)
    (placed,) = placed_callbacks(
        [board], verbose=0, leads=lambda: leading, alone=lambda call: call()
    )
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    placed.set_model(model)
    placed.on_train_begin()
    placed.on_epoch_begin(0)
    for batch in range(7):
        placed.on_train_batch_begin(batch)
        placed.on_train_batch_end(batch, {"loss": 1.0})
    leading = True
    placed.on_train_batch_begin(7)
    assert board._global_train_batch == 8
    placed.on_train_end()
