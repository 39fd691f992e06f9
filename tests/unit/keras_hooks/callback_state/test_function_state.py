"""Globals and closures that functions of callbacks change, which come back with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from matex.keras_hooks.callback_state.function_state import FunctionState
from matex.keras_hooks.callback_state.stateless import keeps_something

seen: list[int] = []
best = 9.0
constants = {"a": 1}


def note(epoch: int) -> None:
    seen.append(epoch + constants["a"])


class Noting(keras.callbacks.Callback):
    """Notes epochs outside of itself."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        global best  # noqa: PLW0603
        note(epoch)
        best = min(best, float(epoch))


def made() -> tuple[list[Any], Callable[[], Any], list[int]]:
    """Callbacks, a function that tells what they keep, and a list that they do not change."""
    count, losses, rng, others = 0, [], random.Random(1), [7]

    def on_epoch_end(epoch: int, logs: Any) -> None:
        nonlocal count
        count += 1
        losses.append(rng.random() + others[0])

    lambdas = keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end)
    return [lambdas, Noting()], lambda: (count, losses, rng.random()), others


def test_of_functions_and_methods() -> None:
    global best
    callbacks, told, _ = made()
    state = FunctionState(callbacks)
    for epoch in range(3):
        for one in callbacks:
            one.on_epoch_end(epoch, {})
    content = state.changed()
    wanted, wanted_best, listed = told(), best, list(seen)
    again, told, others = made()
    best, others[0], constants["a"] = 9.0, 8, 2
    seen.clear()
    there = seen
    FunctionState(again).restore(content, lambda value: False)
    assert told() == wanted
    assert (seen, best) == (listed, wanted_best) and seen is there
    assert (others, constants) == ([8], {"a": 2})  # which the script has been given otherwise


def test_of_two_functions_of_one_name() -> None:
    lists: list[list[int]] = [[], []]

    def callbacks() -> list[Any]:
        def appending(kept: list[int]) -> Any:
            return keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: kept.append(e))

        return [appending(one) for one in lists]

    state = FunctionState(callbacks())
    lists[0].append(3)
    lists[1].append(4)
    content = state.changed()
    lists[0].clear()
    lists[1].clear()
    FunctionState(callbacks()).restore(content, lambda value: False)
    assert lists == [[3], [4]]


def test_of_much_or_strange_nothing_is_kept() -> None:
    data = np.zeros(1 << 20)
    large, streams = [data], [object()]
    assert keeps_something(lambda epoch: large.append(data))
    assert keeps_something(lambda epoch: streams.append(object()))
    assert not keeps_something(lambda epoch: [data])
