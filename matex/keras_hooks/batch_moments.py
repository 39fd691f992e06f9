"""The moments by which BatchNormalization normalises, over the rows of all ranks.

Keras leaves the sums to ``tf.distribute``, which knows nothing of these ranks: a layer that is
made with ``synchronized=True`` would normalise by the rows of its own rank, without a word.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from matex.keras_hooks.metrics import replaced

__all__ = ["MOMENTS", "moments_over_ranks", "normalizations"]

#: The name scope of the operations that make moments, and with them of their gradients'.
MOMENTS = "moments_over_ranks"

Total = Callable[[Any, str], Any]
"""Function that returns the sum over the ranks of a float64 vector, with the vector's name."""


def normalizations(model: Any, *, asking: bool = False) -> list[Any]:
    """BatchNormalization layers of *model*, at any depth, each once. Local.

    Args:
        asking: whether only layers made with ``synchronized=True`` count.
    """
    found = {
        id(layer): layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization) and (layer.synchronized or not asking)
    }
    return list(found.values())


@contextlib.contextmanager
def moments_over_ranks(layers: Sequence[Any], total: Total) -> Iterator[None]:
    """Trace a step inside: each of *layers* normalises by the rows of all ranks. Local.

    A rank sums over its own rows: their number, their values, and their squares. Squares are
    taken about the rank's own mean, where float32 is enough for them, and moved to a common origin
    in float64: the square of a mean may be far larger than the variance.

    Args:
        layers: layers of :func:`normalizations`.
        total: function that returns sums over the ranks, and is differentiable.
    """

    def make(layer: Any) -> Callable[..., Any]:
        def moments(inputs: Any, mask: Any) -> tuple[Any, Any]:
            with tf.name_scope(MOMENTS):
                axes = layer._reduction_axes
                return _moments(inputs, mask, axes, lambda own: total(own, layer.path))

        return moments

    with replaced(list(layers), "_moments", make):
        yield


def _moments(
    inputs: Any, mask: Any, axes: Sequence[int], total: Callable[[Any], Any]
) -> tuple[Any, Any]:
    """Mean and variance of *inputs* over *axes* and over the ranks, in the dtype of *inputs*."""
    size = next(n for axis, n in enumerate(inputs.shape) if axis not in axes)
    added = 0.0
    if mask is None:
        count = tf.cast(tf.size(inputs, tf.int64) // size, tf.float64)
        own_mean = tf.reduce_mean(inputs, axes, keepdims=True)
        about = tf.math.squared_difference(inputs, tf.stop_gradient(own_mean))
    else:
        valid = tf.cast(mask, inputs.dtype)[..., tf.newaxis]
        count = tf.cast(tf.reduce_sum(valid), tf.float64)
        own_sum = tf.reduce_sum(inputs * valid, axes, keepdims=True)
        own_mean = own_sum / tf.maximum(tf.cast(count, inputs.dtype), 1)
        about = tf.math.squared_difference(inputs, tf.stop_gradient(own_mean)) * valid
        added = keras.backend.epsilon()  # as Keras adds it
    mean = tf.reshape(tf.cast(own_mean, tf.float64), (size,))
    squares = tf.cast(tf.reduce_sum(about, axes), tf.float64)
    own = [tf.reshape(count, (1,)), count * mean, squares + count * tf.square(mean)]
    rows, values, squares = tf.split(total(tf.concat(own, 0)), [1, size, size])
    rows = tf.stop_gradient(rows)
    mean = values / (rows + added)
    variance = (squares - 2 * mean * values + rows * tf.square(mean)) / (rows + added)
    return tf.cast(mean, inputs.dtype), tf.cast(tf.maximum(variance, 0), inputs.dtype)
