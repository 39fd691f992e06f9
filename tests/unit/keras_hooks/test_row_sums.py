"""Sums over the rows of a batch are told from means, and from numbers of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from matex.keras_hooks.row_sums import is_row_sum

WEIGHT = tf.Variable(tf.ones((3, 5)))


def total(rows: Any) -> Any:
    return tf.reduce_sum(rows @ WEIGHT)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (total, True),
        (lambda rows: -2.0 * total(rows) / 7.0, True),
        (lambda rows: WEIGHT[0, 0] * total(rows), True),
        (lambda rows: tf.reduce_sum(tf.reduce_mean(rows, 1)), True),
        (lambda rows: total(rows) + tf.nn.l2_loss(rows), True),
        (lambda rows: tf.reduce_sum(total(rows)), True),
        (lambda rows: tf.reduce_mean(rows @ WEIGHT), False),
        (lambda rows: total(rows) / tf.cast(tf.shape(rows)[0], tf.float32), False),
        (lambda rows: total(rows) * (1 / tf.cast(tf.shape(rows)[0], tf.float32)), False),
        (lambda rows: total(rows) + tf.reduce_mean(rows), False),
        (lambda rows: total(rows) + 1.0, False),
        (lambda rows: total(rows) * total(rows), False),
        (lambda rows: tf.square(total(rows)), False),
        (lambda rows: tf.reduce_sum(tf.square(WEIGHT)), False),
        (lambda rows: tf.reduce_sum(tf.reduce_mean(rows, 0)), False),
    ],
)
def test_a_sum_over_rows_is_told(number: Callable[[Any], Any], wanted: bool) -> None:
    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def step(rows: Any) -> Any:
        found.append(is_row_sum(number(rows)))
        return rows

    step.get_concrete_function()
    assert found == [wanted]


def test_with_a_known_number_of_rows_it_is_not() -> None:
    """There a mean may be a sum divided by a constant."""
    found = []

    @tf.function(input_signature=[tf.TensorSpec([4, 3])])
    def step(rows: Any) -> Any:
        found.append(is_row_sum(total(rows)))
        return rows

    step.get_concrete_function()
    assert found == [False]
    assert not is_row_sum(total(tf.ones((4, 3))))
