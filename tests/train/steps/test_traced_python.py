"""Python that a trace has read: what is noted of it, and what later traces read; no MPI."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from matex import keras_hooks
from matex.data import Batches
from matex.steps.script_code.traced_python import TracedPython
from matex.steps.step import Step
from tests.train.steps.test_step import control

ROWS = 12


class Scaled(keras.losses.Loss):
    """Mean squared error times a factor that is a number of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0
        self.calls: list[int] = []

    def call(self, y_true: Any, y_pred: Any) -> Any:
        self.calls.append(len(self.calls))
        return self.factor * keras.ops.square(y_true - y_pred)


def made(*, run_eagerly: bool = False) -> tuple[Any, Scaled]:
    """A model with a loop in its step, of which each number of rows may have its own graph."""
    layers = [keras.layers.LSTM(3), keras.layers.Dropout(0.0), keras.layers.Dense(1)]
    model, loss = keras.Sequential([keras.Input((5, 2)), *layers]), Scaled()
    model.compile("adam", loss, metrics=["mae"], run_eagerly=run_eagerly)
    return model, loss


@pytest.fixture
def batches() -> Batches:
    x = np.random.default_rng(0).normal(size=(ROWS, 5, 2)).astype(np.float32)
    return Batches(x, x[:, 0, :1])


def noted(model: Any) -> TracedPython:
    python = TracedPython(model)
    python.note()
    return python


def test_a_fit_with_callbacks_of_keras_changes_nothing_before_its_first_step(
    batches: Batches,
) -> None:
    model, _ = made()
    x, y = batches.rows(np.arange(ROWS))[:2]
    found = []

    class Asking(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if not found:
                found.append(python.changed)

    model.fit(x, y, verbose=0)
    python = noted(model)
    callbacks = [
        keras.callbacks.EarlyStopping("loss", restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss"),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 * rate),
        Asking(),
    ]
    model.fit(x, y, verbose=0, validation_data=(x, y), callbacks=callbacks)
    assert found == [""]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda model, loss: setattr(loss, "factor", 2.0), "factor"),
        (lambda model, loss: setattr(model.layers[1], "rate", 0.5), "rate"),
        (lambda model, loss: setattr(model.layers[0], "trainable", False), "_trainable"),
        (lambda model, loss: loss.calls.append(3), "a list"),
    ],
)
def test_changes_that_a_trace_would_read_are_found_and_put_back_for_one(
    change: Any, name: str
) -> None:
    model, loss = made()
    python = noted(model)
    assert python.changed == ""
    change(model, loss)
    assert python.changed == name
    with python.as_noted():
        assert python.changed == ""
        loss.factor = 9.0  # as a trace might
    assert python.changed == name
    assert loss.factor in (1.0, 2.0)


def test_equal_values_are_no_change_and_eager_steps_read_all_anew() -> None:
    model, loss = made()
    python = noted(model)
    loss.factor = float(str(loss.factor))
    loss.calls = loss.calls[:]
    assert python.changed == "calls"  # another list
    model, loss = made(run_eagerly=True)
    python = noted(model)
    loss.factor = 2.0
    assert python.changed == ""
    with python.as_noted():
        assert loss.factor == 2.0


def test_a_later_trace_of_a_step_reads_what_the_first_has_read(batches: Batches) -> None:
    model, loss = made()
    keras_hooks.build(model, keras_hooks.as_data(batches.signature))
    step = Step(model, batches.signature)
    step.python.note()
    rows, given = batches.rows(np.arange(ROWS)), control(0, ROWS, ROWS)
    first = [np.array(part) for part in step.contribution(rows, given)]
    loss.factor, calls = 3.0, len(loss.calls)
    assert loss.factor == 3.0
    for contribution in (step.quiet_going_on(), step.contribution_of(ROWS)):
        for mine, wanted in zip(contribution(rows, given), first, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
    assert (loss.factor, len(loss.calls)) == (3.0, calls)
