"""matex.Checkpoint where there is no run, and what it refuses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import matex
from checkpoints import Snapshot
from matex.errors import InputError
from matex.fitting.fit_state.saved_cursor import LOOP, is_of_fit


def model() -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def test_without_a_run_it_counts_and_saves_nothing() -> None:
    built = keras.optimizers.SGD(momentum=0.9)
    built.build(model().trainable_variables)
    checkpoint = matex.Checkpoint(model(), built)
    for _ in range(checkpoint.done, 3):
        checkpoint.step()
    assert checkpoint.done == 3
    assert checkpoint.save() is False


@pytest.mark.parametrize(
    "part", [keras.optimizers.Adam(), keras.Sequential([keras.layers.Dense(2)]), object(),
             tf.Module(), tf.Variable(1.0)],
)  # fmt: skip
def test_what_has_no_variables_of_keras_yet_is_refused(part: Any) -> None:
    with pytest.raises(InputError, match=r"built and have variables of Keras. Received: .*"):
        matex.Checkpoint(model(), part)


def test_a_compiled_model_brings_its_optimizer() -> None:
    compiled = model()
    compiled.compile("adam", "mse")
    with pytest.raises(InputError, match="Adam"):  # which is not built
        matex.Checkpoint(compiled)
    compiled.optimizer.build(compiled.trainable_variables)
    assert matex.Checkpoint(compiled).done == 0


def test_a_loop_s_checkpoint_is_no_fit_s() -> None:
    def saved(**cursor: int) -> Snapshot:
        return Snapshot(weights={"x": np.zeros(1)}, cursor={"step": 5, **cursor})

    assert is_of_fit(saved(fit=1), 1)
    assert not is_of_fit(saved(fit=1), 0)
    assert not is_of_fit(saved(**{"fit": 1, LOOP: 5}), 1)
    assert not is_of_fit(None, 0)
