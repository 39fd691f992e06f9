"""The moments by which BatchNormalization normalises, over the rows of all ranks.

Keras leaves the sums to ``tf.distribute``, which knows nothing of these ranks: a layer that is
made with ``synchronized=True`` would normalise by the rows of its own rank, without a word.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.models.functional import Functional

from matex.keras_hooks.metrics import replaced_methods
from matex.keras_hooks.optimizers import optimizers_of

__all__ = ["MOMENTS", "moments_over_ranks", "normalizations", "wandering_biases"]

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


def wandering_biases(model: Any, synchronized: Collection[Any]) -> list[str]:
    """Names of layers whose bias one of *synchronized* subtracts again right behind. Local.

    The gradient of such a bias is zero but for rounding, and an optimizer that divides by the
    gradient's size makes whole steps of it. Only models that are graphs of layers tell.

    Args:
        model: built model.
        synchronized: BatchNormalization layers that normalise over the whole batch.
    """
    if all(_is_proportional(optimizer) for optimizer in optimizers_of(model)):
        return []
    parts = [getattr(part, "_functional", part) for part in model._flatten_layers()]
    found = {}
    for graph in [part for part in parts if isinstance(part, Functional)]:
        behind: dict[Any, list[Any]] = {}
        for node in itertools.chain.from_iterable(graph._nodes_by_depth.values()):
            for before in node.parent_nodes:
                behind.setdefault(before.operation, []).append(node.operation)
        ends = [output._keras_history.operation for output in graph.outputs]
        for layer, readers in behind.items():
            is_inside = all(layer is not end for end in ends)
            if not (is_inside and _has_bias(layer)):
                continue
            if all(_takes_mean_of(layer, reader, synchronized) for reader in readers):
                found[id(layer)] = layer.name
    return list(found.values())


def _is_proportional(optimizer: Any) -> bool:
    """Whether *optimizer* makes small steps of small gradients."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return isinstance(inner, keras.optimizers.SGD)


def _has_bias(layer: Any) -> bool:
    """Whether the outputs of *layer* are a product and a trained bias by channel, the last axis."""
    is_linear = getattr(layer, "activation", None) in (None, keras.activations.linear)
    is_last = getattr(layer, "data_format", "channels_last") == "channels_last"
    bias = getattr(layer, "bias", None)
    is_trained = bias is not None and bias.trainable and len(bias.shape) == 1
    return is_linear and is_last and is_trained


def _takes_mean_of(layer: Any, reader: Any, synchronized: Collection[Any]) -> bool:
    """Whether *reader* is one of *synchronized* and subtracts the means of *layer*'s channels."""
    is_one = any(reader is each for each in synchronized)
    return is_one and reader.trainable and reader.axis in (-1, len(layer.output.shape) - 1)


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

    with replaced_methods(list(layers), "_moments", make):
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
