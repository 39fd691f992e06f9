"""Shapes in a graph are traced back to those of its arguments, or not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from matex.steps.subgraph import Axis, sizes_by_arguments

WEIGHT = tf.Variable(tf.ones((3, 5)))
KERNEL = tf.Variable(tf.ones((3, 3, 1, 2)))


def sizes(function: Callable[..., Any], *shapes: list[int | None]) -> Any:
    """Sizes found for the value of *function*."""
    specs = [tf.TensorSpec(shape) for shape in shapes]
    traced = tf.function(function).get_concrete_function(*specs)
    arguments = traced.graph.inputs[: len(specs)]
    return sizes_by_arguments(traced.outputs[0].op.inputs[0], arguments)


def by_matrices(x: Any) -> Any:
    return tf.tanh(tf.tensordot(x, WEIGHT, 1)) + 1.0


def by_pooling(x: Any) -> Any:
    return tf.nn.max_pool2d(tf.nn.conv2d(x, KERNEL, 1, "SAME"), 2, 2, "VALID")


@pytest.mark.parametrize(
    ("function", "shapes", "wanted"),
    [
        (by_matrices, [[None, None, 3]], [Axis(0, 0), Axis(0, 1), 5]),
        (by_matrices, [[None, 4, 3]], [Axis(0, 0), 4, 5]),
        (by_pooling, [[None, 8, 8, 1]], [Axis(0, 0), 4, 4, 2]),
        (by_pooling, [[None, None, 8, 1]], None),
        (lambda x, y: tf.concat([x, y], 1), [[None, 2], [None, 3]], [Axis(0, 0), 5]),
        (lambda x, y: tf.concat([x, y], 0), [[None, 2], [None, 2]], None),
        (lambda x, y: tf.matmul(x, y, transpose_b=True), [[None, 2]] * 2, [Axis(0, 0)] * 2),
        (lambda x: tf.boolean_mask(x, x[:, 0] > 0), [[None, 2]], None),
        (lambda x: tf.reshape(x, (-1, 1)), [[None, 2]], None),
        (lambda x: tf.reshape(x, (-1, 2)), [[None, 2]], [Axis(0, 0), 2]),
    ],
)
def test_axes_are_as_long_as_those_of_arguments(
    function: Callable[..., Any], shapes: list[list[int | None]], wanted: Any
) -> None:
    assert sizes(lambda *given: tf.identity(function(*given)), *shapes) == wanted
