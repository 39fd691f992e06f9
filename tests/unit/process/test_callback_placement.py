"""Callbacks run on every rank or on the leader by what their class says."""

from __future__ import annotations

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
