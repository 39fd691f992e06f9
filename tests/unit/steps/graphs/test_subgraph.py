"""Shapes in a graph are traced back to those of its arguments, or not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from matex.errors import NotShareable
from matex.steps.graphs.axis_lengths import Axis
from matex.steps.graphs.subgraph import function_of, sizes_by_arguments

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


def nonnegative(rows: Any) -> Any:
    """All *rows* of zeros, and not all of others."""
    return tf.boolean_mask(rows, rows[:, 0] >= 0)


def nudged(rows: Any) -> Any:
    """*rows* and a random number, by which a generator would go on."""
    return rows + tf.random.normal(())


def by_loop(x: Any, *, chosen: Callable[[Any], Any] = lambda rows: rows) -> Any:
    """A recurrence over the second axis, of what is *chosen* of each of its places."""
    first = tf.zeros((tf.shape(chosen(x[:, 0]))[0], 5))

    def body(place: Any, state: Any, made: Any) -> Any:
        state = tf.tanh(chosen(x[:, place]) @ WEIGHT + state)
        return place + 1, state, made.write(place, state)

    length = tf.shape(x)[1]
    made = tf.TensorArray(tf.float32, length, element_shape=(None, 5))
    made = tf.while_loop(lambda place, *_: place < length, body, (0, first, made))[2]
    return tf.transpose(made.stack(), (1, 0, 2))


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
        (by_loop, [[None, None, 3]], [Axis(0, 0), Axis(0, 1), 5]),
        (lambda x: by_loop(x)[:, 1:], [[None, None, 3]], None),
        (lambda x: by_loop(x, chosen=nonnegative), [[None, None, 3]], None),
        (lambda x: by_loop(x, chosen=nudged), [[None, None, 3]], None),
    ],
)
def test_axes_are_as_long_as_those_of_arguments(
    function: Callable[..., Any], shapes: list[list[int | None]], wanted: Any
) -> None:
    assert sizes(lambda *given: tf.identity(function(*given)), *shapes) == wanted


def sum_of_labels(made: Callable[[Any], Any]) -> Any:
    """Sum of labels that are brought to the shape of what is *made* of the other argument."""
    signature = (tf.TensorSpec([None, 3]), tf.TensorSpec([None]))
    wanted = []

    @tf.function(input_signature=(signature,))
    def step(batch: Any) -> Any:
        x, labels = batch
        shaped = tf.reshape(labels, tf.shape(made(x)))
        factor = tf.reshape(2.0, tf.shape(tf.reduce_sum(made(x))))  # a scalar's shape is empty
        wanted.append(tf.cast(factor * tf.reduce_sum(shaped), tf.float64))
        return tf.reduce_sum(made(x))

    traced = step.get_concrete_function()
    return function_of(traced, wanted, signature, purpose="sums")


def test_a_sum_needs_the_shape_of_an_output_alone() -> None:
    batch = (tf.ones((4, 3)), tf.range(4, dtype=tf.float32))
    assert sum_of_labels(lambda x: x @ WEIGHT[:, :1])(batch) == pytest.approx(12)


def test_a_shape_that_arguments_do_not_tell_is_too_much() -> None:
    with pytest.raises(NotShareable, match="MatMul"):
        sum_of_labels(lambda x: tf.boolean_mask(x @ WEIGHT, x[:, 0] > 0)[:, :1])
