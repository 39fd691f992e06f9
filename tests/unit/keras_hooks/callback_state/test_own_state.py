"""Objects that a callback holds are given their state again; what begins anew is named."""

from __future__ import annotations

import enum
import functools
import io
import logging
import re
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex import keras_hooks
from matex.keras_hooks.callback_state.own_state import callbacks_begun, fit_begins
from matex.keras_hooks.callback_state.plain_values import as_bytes


class Mode(enum.Enum):
    WARM = 1
    COLD = 2


@dataclass
class Window:
    values: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    mean: float = 0.0
    owner: Any = None


@dataclass(frozen=True)
class Fixed:
    text: io.StringIO


class Slotted:
    __slots__ = ("value",)


class Holding(keras.callbacks.Callback):
    """Holds what callbacks hold."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()
        self.window.owner = self
        self.same = self.window
        self.windows: dict[str, list[Any]] = {"a": [Window(), 0.0]}
        self.mean = keras.metrics.Mean()
        self.average = [tf.Variable([0.0, 0.0]), keras.Variable(0.0, dtype="bfloat16")]
        self.late: Any = None
        self.last = tf.constant(0)
        self.seeds = keras.random.SeedGenerator(4)
        self.noise = np.random.default_rng(3)
        self.mode = Mode.WARM

    def change(self) -> None:
        self.window.values.extend([1.0, 2.0, 3.0, 4.0])
        self.window.mean = 3.0
        self.windows["a"][0].mean, self.windows["a"][1] = 5.0, 6.0
        self.mean.update_state([2.0, 4.0])
        self.average[0].assign([1.0, 2.0])
        self.average[1].assign(1.5)
        self.late = [tf.Variable(7, trainable=False), keras.Variable(2.5, dtype="bfloat16")]
        self.last = tf.constant(8, tf.int64)
        keras.random.normal((), seed=self.seeds)
        self.noise.normal()
        self.mode = Mode.COLD


def restored(first: Any, second: Any) -> list[str]:
    memory = keras_hooks.callback_state([first])
    assert all(value.dtype == np.uint8 for value in memory.values())
    return keras_hooks.restore_callback_state([second], memory)


def test_objects_are_given_their_state() -> None:
    first, again = Holding(), Holding()
    there = vars(again).copy()
    first.change()
    inner, noise = again.windows["a"][0], again.noise
    assert restored(first, again) == []
    for name in ("window", "same", "mean", "seeds", "noise"):
        assert getattr(again, name) is there[name], name
    assert again.window.values == deque([2.0, 3.0, 4.0]) and again.window.values.maxlen == 3
    assert (again.window.mean, again.window.owner) == (3.0, again)
    assert again.windows["a"][0] is inner and (inner.mean, again.windows["a"][1]) == (5.0, 6.0)
    assert float(again.mean.result()) == 3.0
    assert again.average[0].numpy().tolist() == [1.0, 2.0]
    assert float(again.average[1].numpy()) == 1.5
    assert int(again.late[0].numpy()) == 7 and not again.late[0].trainable
    assert float(again.late[1].numpy()) == 2.5 and again.late[1].dtype == "bfloat16"
    assert (int(again.last), again.last.dtype, again.mode) == (8, tf.int64, Mode.COLD)
    assert again.seeds.state.numpy().tolist() == first.seeds.state.numpy().tolist()
    assert noise.normal() == first.noise.normal()


def test_the_state_of_the_model_is_not_stored_again() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)

    class Referring(keras.callbacks.Callback):
        pass

    callback = Referring()
    bare = keras_hooks.callback_state([callback])
    callback.set_model(model)
    variables = model.variables + model.optimizer.variables
    callback.weights = [*variables, *(one.value for one in variables)]
    callback.rate = model.optimizer.learning_rate
    callback.other = {"optimizer": model.optimizer, "layer": model.layers[0]}
    callback.trainer = Window(owner=model)
    (content,) = keras_hooks.callback_state([callback]).values()
    assert "variable" not in content.tobytes().decode() and "rate" not in content.tobytes().decode()
    assert len(bare) == 1
    assert keras_hooks.restore_callback_state([callback], {"Referring-0/own": content}) == []


def test_what_begins_anew_is_named() -> None:
    class Losing(keras.callbacks.Callback):
        def __init__(self, *, more: bool) -> None:
            super().__init__()
            self.count = 0
            self.file = io.StringIO()
            self.draws = (number for number in range(9))
            self.helper = Window(owner=io.StringIO())
            self.slotted = [Slotted()]
            self.chain = Window()
            last = self.chain
            for _ in range(200):
                last.owner = Window()
                last = last.owner
            self.windows = [Window()] if more else []
            self.large = np.zeros((1 << 26) + 1 if more else 1, np.uint8)

            self.log, self.lock = logging.getLogger("x"), threading.Lock()
            self.fixed = Fixed(io.StringIO())
            self.text, self.kind = re.compile("a"), Window
            self.scheduled, self.module = [lambda: 0, print, self.set_model], np
            self.loss, self.data = keras.losses.MeanSquaredError(), tf.data.Dataset.range(3)

    first, again = Losing(more=True), Losing(more=False)
    first.count = 4
    of = "of the callback Losing"
    assert restored(first, again) == [
        f"attribute file (StringIO) {of}",
        f"attribute draws (generator) {of}",
        f"attribute helper.owner (StringIO) {of}",
        f"attribute slotted (Slotted) {of}",
        f"attribute chain (too deep) {of}",
        f"attribute large (too large to be copied at each checkpoint) {of}",
        f"attribute windows (list) {of}",
    ]
    assert again.count == 4


def test_what_an_older_checkpoint_did_not_hold_is_named() -> None:
    old = as_bytes({"mode": 1, "late": None, "average": [], "last": 2.0})
    assert keras_hooks.restore_callback_state([Holding()], {"Holding-0/own": old}) == [
        f"attribute {one} of the callback Holding"
        for one in (
            "window (Window)",
            "windows (dict)",
            "mean (Mean)",
            "seeds (SeedGenerator)",
            "noise (Generator)",
        )
    ]


class Sharing(keras.callbacks.Callback):
    """Shares a list with another, and a helper."""

    def __init__(self, values: list[int], helper: Window) -> None:
        super().__init__()
        self.own, self.values, self.helper = [0], values, helper


def sharing() -> list[Sharing]:
    values: list[int] = []
    helper = Window()
    return [Sharing(values, helper), Sharing(values, helper)]


def test_what_two_callbacks_share_they_share_again() -> None:
    first, again = sharing(), sharing()
    first[0].values.append(3)
    first[1].helper.mean = 4.0
    memory = keras_hooks.callback_state(first)
    assert keras_hooks.restore_callback_state(again, memory) == []
    assert again[0].values is again[1].values and again[0].values == [3]
    assert again[0].helper is again[1].helper and again[1].helper.mean == 4.0
    del memory["Sharing-0/own"]
    assert keras_hooks.restore_callback_state(sharing(), memory) == [
        "attribute helper (Window) of the callback Sharing",
        "attribute values (list) of the callback Sharing",
    ]


losses: list[float] = []
window = Window()


def counting() -> Any:
    count = 0

    def count_one(epoch: int, logs: Any) -> None:
        nonlocal count
        count += 1

    return count_one


def telling(name: str) -> Any:
    return lambda epoch, logs: print(name, np.mean(epoch))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (counting(), False),  # it is kept
        (lambda epoch, logs: losses.append(epoch), False),
        (lambda epoch, logs: window.values.append(epoch), True),
        (Window().values.append, True),
        (functools.partial(print, losses), True),
        (telling("a"), False),
        (lambda epoch, logs: print(epoch, Window), False),
    ],
)
def test_functions_that_keep_something_are_named(function: Any, named: bool) -> None:
    callback = keras.callbacks.LambdaCallback(on_epoch_end=function)
    wanted = ["what functions of LambdaCallback keep"] if named else []
    assert keras_hooks.restore_callback_state([callback], {}) == wanted


def test_large_arrays_are_saved_where_they_have_changed() -> None:
    class Predicting(keras.callbacks.Callback):
        """Holds data, and sums."""

        def __init__(self) -> None:
            super().__init__()
            self.data, self.sums = np.ones((2, 1 << 17)), np.zeros(1 << 17)

    callback = Predicting()
    fit_begins([callback])
    callback.sums += 2
    memory = keras_hooks.callback_state([callback])
    assert sum(array.nbytes for array in memory.values()) < callback.data.nbytes
    again = Predicting()
    fit_begins([again])
    assert keras_hooks.restore_callback_state([again], memory) == []
    assert (again.sums == 2).all() and (again.data == 1).all()


class Patient(keras.callbacks.Callback):
    """Has settings, and counts."""

    def __init__(self, patience: Any, name: str) -> None:
        super().__init__()
        self.patience, self.name, self.waited, self.best = patience, name, 0, None

    def on_train_begin(self, logs: Any = None) -> None:
        self.best = 9.0


@pytest.mark.parametrize("as_scripted", [True, False])
def test_settings_are_what_the_script_says_by_then(as_scripted: bool) -> None:
    def begun(callback: Any) -> Any:
        fit_begins([callback])
        callback.on_train_begin()
        callbacks_begun()
        return callback

    callback = begun(Patient((3, "min"), "old"))
    callback.waited, callback.best = 1, None
    memory = keras_hooks.callback_state([callback])
    again = begun(Patient((5, "min"), "new"))
    keras_hooks.restore_callback_state([again], memory, as_scripted=as_scripted)
    settings = ((5, "min"), "new") if as_scripted else ((3, "min"), "old")
    assert (again.patience, again.name) == settings
    assert (again.waited, again.best) == (1, None)


def test_what_a_fit_before_has_changed_is_no_setting() -> None:
    callback = Patient(3, "")
    fit_begins([callback])
    callback.waited = 7
    fit_begins([callback])  # of the next fit
    memory = keras_hooks.callback_state([callback])
    again = Patient(5, "")
    fit_begins([again])
    keras_hooks.restore_callback_state([again], memory, as_scripted=True)
    assert (again.patience, again.waited) == (5, 7)


def test_a_list_whose_entries_cannot_be_made_stays_as_it_is() -> None:
    class Collecting(keras.callbacks.Callback):
        """Collects objects in lists that the script holds."""

        def __init__(self, *lists: list[Any]) -> None:
            super().__init__()
            self.found, self.counts = lists

    lists: list[list[Any]] = [[1], []]
    callback = Collecting(*lists)
    callback.found.append(Window())
    callback.counts.append(2)
    memory = keras_hooks.callback_state([callback])
    lists = [[1], []]
    again = keras_hooks.restore_callback_state([Collecting(*lists)], memory)
    assert again == ["attribute found (list) of the callback Collecting"]
    assert lists == [[1], [2]]
