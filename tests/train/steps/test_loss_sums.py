"""Parts of a loss by the denominator of the whole batch, and the graph that gives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.steps.graphs.subgraph import function_of

ROWS, CUT, STEPS = 7, 3, 5
generator = np.random.default_rng(4)
VALUES = generator.uniform(0.1, 1, (ROWS, STEPS))
WEIGHTS = generator.uniform(0.5, 2, (ROWS, STEPS))
MASK = np.arange(STEPS) < np.arange(ROWS)[:, None] - 2  # of the first part, all is masked
REDUCTIONS = ["sum_over_batch_size", "mean", "sum", "mean_with_sample_weight"]


@pytest.fixture
def _double() -> Iterator[None]:
    """Keras scales masks in its default dtype, whatever that of the loss is."""
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


class OwnValues(keras.losses.Loss):
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return y_pred * y_true


def loss_of(reduction: str, rows: slice, *, masked: bool, weighted: bool) -> Any:
    loss = OwnValues(reduction=reduction, dtype="float64")
    predicted = tf.constant(VALUES[rows])
    if masked:
        predicted._keras_mask = tf.constant(MASK[rows])
    return loss(tf.ones_like(predicted), predicted, WEIGHTS[rows] if weighted else None)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_parts_add_up_to_the_loss_of_keras(reduction: str, masked: bool, weighted: bool) -> None:
    options = {"masked": masked, "weighted": weighted}
    unknown = tf.constant(np.ones(1))
    with keras_hooks.shared_losses(1.0, unknown) as found:
        loss_of(reduction, slice(0, ROWS), **options)
    added = 0.0
    for rows in (slice(0, CUT), slice(CUT, ROWS)):
        weight = tf.constant((rows.stop - rows.start) / ROWS, tf.float64)
        denominators = tf.constant(np.array([float(one) for one in found]))
        with keras_hooks.shared_losses(weight, denominators):
            added += float(weight * loss_of(reduction, rows, **options))
    whole = float(loss_of(reduction, slice(0, ROWS), **options))
    assert added == pytest.approx(whole, rel=1e-12)
    plain_mean = not masked and (reduction != "mean_with_sample_weight" or not weighted)
    assert len(found) == (0 if reduction == "sum" or plain_mean else 1)


def test_without_its_denominator_a_masked_loss_cannot_be_shared() -> None:
    with (
        pytest.raises(NotShareable, match="in a step that runs eagerly"),
        keras_hooks.shared_losses(1.0, tf.zeros((0,), tf.float64)),
    ):
        loss_of("mean", slice(0, ROWS), masked=True, weighted=False)
    assert float(loss_of("sum", slice(0, 1), masked=False, weighted=False)) > 0


SPEC = tf.TensorSpec((None, STEPS), tf.float64)


def traced(compute: Any) -> tuple[Any, list[Any]]:
    """*compute* within a function that does much beside it, and its tensors."""
    wanted: list[Any] = []

    def function(rows: Any) -> Any:
        wanted[:] = [compute(rows)]
        return tf.linalg.matmul(rows, rows, transpose_b=True)

    return tf.function(function, input_signature=[SPEC]).get_concrete_function(), wanted


def test_a_denominator_is_computed_without_the_rest() -> None:
    few = tf.constant(3.0, tf.float64)
    function, wanted = traced(lambda rows: few * tf.reduce_sum(tf.cast(rows > 1, tf.float64)))
    compute = function_of(function, wanted, SPEC, purpose="masks")
    rows = WEIGHTS
    assert compute(tf.constant(rows)) == pytest.approx([3.0 * (rows > 1).sum()])
    assert compute(tf.constant(rows[:0])) == pytest.approx([0.0])


VARIABLE = tf.Variable(2.0, dtype=tf.float64)


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda rows: VARIABLE * tf.reduce_sum(rows), "depend on what a step changes"),
        (lambda rows: tf.reduce_sum(tf.matmul(rows, tf.transpose(rows))), "depend on MatMul"),
        (lambda rows: tf.random.uniform((), dtype=tf.float64), "depend on RandomUniform"),
    ],
)
def test_what_depends_on_more_than_the_batch_is_refused(compute: Any, reason: str) -> None:
    function, wanted = traced(compute)
    with pytest.raises(NotShareable, match=f"masks {reason}"):
        function_of(function, wanted, SPEC, purpose="masks")
