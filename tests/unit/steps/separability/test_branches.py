"""Traced steps that take a branch by the rows of their batch, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from matex.steps.graphs.graph_inspection import one_for_all
from matex.steps.separability.branches import takes_branch_by_rows


def decided_by(value: Any, rows: Any) -> Any:
    return tf.cond(value > 0, lambda: 2 * rows, lambda: rows)


def asserted(rows: Any, control: Any) -> Any:
    tf.debugging.assert_greater(rows, 0.0)
    return rows * control[0]


def in_a_loop(rows: Any, control: Any) -> Any:
    def body(total: Any, step: Any) -> tuple[Any, Any]:
        return decided_by(total, total) + tf.reduce_sum(rows), step + 1

    return tf.while_loop(lambda total, step: step < 3, body, (control[0], 0))


def counted(rows: Any, control: Any) -> Any:
    def body(total: Any, step: Any) -> tuple[Any, Any]:
        return total + decided_by(step, tf.reduce_sum(rows)), step + 1

    return tf.while_loop(lambda total, step: step < 3, body, (control[0], 0))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda rows, control: decided_by(tf.reduce_mean(rows), rows), True),
        (lambda rows, control: tf.function(decided_by)(rows[0, 0], rows), True),
        (in_a_loop, True),
        (lambda rows, control: decided_by(control[0], rows), False),
        (lambda rows, control: decided_by(one_for_all(rows[:, 0]), rows), False),
        (lambda rows, control: decided_by(tf.shape(rows)[1] - 2, rows), False),
        (lambda rows, control: tf.function(decided_by)(control[0], rows), False),
        (counted, False),
        (asserted, False),
    ],
)
def test_a_branch_that_rows_decide_on_is_seen(step: Callable[..., Any], expected: bool) -> None:
    signature = [tf.TensorSpec([None, 3]), tf.TensorSpec([2])]
    traced = tf.function(step, input_signature=signature, autograph=False)
    assert takes_branch_by_rows(traced.get_concrete_function()) is expected
