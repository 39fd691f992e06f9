"""Rows count for an event as they do for training: by ``class_weight``, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import matex
from matex.apoptosis.cut import rebuild
from tests.train.apoptosis.test_callback import fit, make

WEIGHTS = {1: 20.0}


def losses_of(x: Any, y: Any, **options: Any) -> tuple[float, float, Any]:
    """Losses before training and after an epoch at rate 0, and weights of rows to score on."""
    model, _, _ = make()
    model.optimizer.learning_rate = 0.0
    apoptosis = matex.Apoptosis(first_epoch=2, last_epoch=2, verbose=0)
    fit(model, x, y, apoptosis, class_weight=WEIGHTS, **options)
    progress = rebuild.notes_of(model)["progress"]
    (batch,) = apoptosis._fit.samples.scoring.batches([(0, 9)])
    return progress["at_start"], progress["held_out"], np.asarray(batch[2])


def wanted(x: Any, y: Any, weights: Any = None) -> float:
    """The loss of the same model as evaluation has it, by class unless there are *weights*."""
    model, _, _ = make()
    weights = np.where(y == 1, 20.0, 1.0) if weights is None else weights
    told = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    return float(told["loss"])


@pytest.mark.parametrize("kind", ["arrays", "pipeline"])
def test_the_loss_is_by_class_weight(kind: str) -> None:
    _, x, y = make()
    x, y = x[:500], y[:500]  # so few are all judged by
    given: Any = (x, y)
    if kind == "pipeline":
        given = (tf.data.Dataset.from_tensor_slices((x, y)).batch(50), None)
    batch_size = 100 if kind == "arrays" else None
    start, held_out, weights = losses_of(*given, batch_size=batch_size)
    assert [start, held_out] == pytest.approx([wanted(x, y)] * 2, rel=1e-4)
    np.testing.assert_array_equal(weights, np.where(y[:9] == 1, 20.0, 1.0))


def test_validation_rows_count_as_training_has_them_or_as_they_say() -> None:
    """Keras does not weigh them, but what an event costs is compared with what training gains."""
    _, x, y = make()
    rows, labels = x[:90], y[:90]
    _, held_out, _ = losses_of(x, y, validation_data=(rows, labels))
    assert held_out == pytest.approx(wanted(rows, labels), rel=1e-4)
    own = np.linspace(0.5, 2.0, 90).astype(np.float32)
    _, held_out, _ = losses_of(x, y, validation_data=(rows, labels, own))
    assert held_out == pytest.approx(wanted(rows, labels, own), rel=1e-4)
