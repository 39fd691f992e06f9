"""The state of callbacks goes into a checkpoint and comes back, whatever else the list holds."""

from __future__ import annotations

import time

import keras
import numpy as np

from matex import keras_hooks
from matex.fitting.fit_state.clock_readings import ClockReadings

callbacks = keras.callbacks


def made() -> list[keras.callbacks.Callback]:
    return [
        callbacks.TerminateOnNaN(),
        callbacks.EarlyStopping("loss", patience=5, restore_best_weights=True),
        callbacks.EarlyStopping("val_loss", patience=3),
        callbacks.ReduceLROnPlateau("loss"),
        callbacks.ModelCheckpoint("x.keras", save_best_only=True),
        callbacks.ModelCheckpoint("y.keras", save_freq=7),
        callbacks.BackupAndRestore("backup", save_freq=7),
        callbacks.TensorBoard("board", update_freq=5),
    ]


def test_the_memory_of_callbacks_is_restored() -> None:
    first = made()
    first[1].wait, first[1].best, first[1].best_epoch = 2, 0.25, 7
    first[1].best_weights = [np.ones((2, 3)), np.zeros(3)]
    first[2].wait = 1
    first[3].wait, first[3].cooldown_counter, first[3].best = 4, 3, 0.5
    first[4].best = 0.125
    for batch in range(9):
        first[5]._should_save_on_batch(batch)
        first[6]._should_save_on_batch(batch)
    first[6]._current_epoch = 3
    first[7]._global_train_batch = 9
    memory = keras_hooks.callback_state(first)
    assert all(isinstance(value, np.ndarray) for value in memory.values())
    again = made()
    keras_hooks.restore_callback_state(again, memory)
    assert (again[1].wait, again[1].best, again[1].best_epoch) == (2, 0.25, 7)
    assert [part.shape for part in again[1].best_weights] == [(2, 3), (3,)]
    assert (again[2].wait, again[2].best_weights) == (1, None)
    assert (again[3].wait, again[3].cooldown_counter, again[3].best) == (4, 3, 0.5)
    assert again[4].best == 0.125
    assert again[6]._current_epoch == 3 and again[7]._global_train_batch == 9
    for one in again[5:7]:  # of batches from the tenth on the fourteenth is the next to be saved
        assert [one._should_save_on_batch(batch) for batch in range(9, 14)].index(True) == 4


def test_the_memory_is_a_copy() -> None:
    first = made()
    first[1].best_weights = [np.ones(3)]
    memory = keras_hooks.callback_state(first)
    first[1].best_weights[0][:] = 9
    assert memory["EarlyStopping-0/best_weights/0"].tolist() == [1, 1, 1]


def test_callbacks_that_have_changed_begin_anew() -> None:
    memory = keras_hooks.callback_state(made())
    other = [callbacks.SwapEMAWeights(), callbacks.EarlyStopping()]
    keras_hooks.restore_callback_state(other, memory)
    keras_hooks.restore_callback_state(made(), {})
    assert other[1].wait == 0


def test_what_a_clock_has_shown_meanwhile_may_be_kept() -> None:
    """A callback counts no second epoch where one begins again, and takes the new time."""

    class Timed(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.count, self.rate = 0, 1.0
            self.began, self.ticks = 0.0, 0.0
            self.best = 0.0

        def begin(self) -> None:
            self.count, self.rate = self.count + 1, self.rate / 2
            self.began, self.ticks = time.time(), time.perf_counter()
            self.best = time.process_time()  # no time, but as small a number

    first, again = Timed(), Timed()
    first.begin()
    memory = keras_hooks.callback_state([first])
    keras_hooks.restore_callback_state([again], memory)
    readings = ClockReadings()
    again.begin()
    now = again.began, again.ticks
    assert again.best != first.best
    keras_hooks.restore_callback_state([again], memory, keeping=readings.include)
    assert (again.count, again.rate, again.best) == (1, 0.5, first.best)
    assert (again.began, again.ticks) == now
