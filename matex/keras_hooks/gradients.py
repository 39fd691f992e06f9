"""Averages of gradients that every rank computed from whole batches, in a graph or outside."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record

from matex.keras_hooks.optimizers import learning_rate_variable, set_learning_rate
from matex.keras_hooks.tensors import is_data, is_variable, map_gradients
from matex.keras_hooks.xla import exchange_in_graph
from matex.replacing import replaced

__all__ = ["MeanExchange", "mean_gradients", "replaced_gradients"]

_MEAN = "_matex_mean"  # attribute of a gradient that is the ranks' mean


class MeanExchange(Protocol):
    """Averages arrays over the ranks; collective."""

    def __call__(self, sparse: int, count: int, *parts: np.ndarray) -> list[np.ndarray]:
        """The means of *count* parts, the last of which is the learning rate.

        Before them come *sparse* that say where slices belong, and behind them the batch.
        """


def mean_gradients(
    optimizer: Any | None, gradients: list[Any], batch: Any, exchange: MeanExchange
) -> list[Any]:
    """Mean over the ranks of each gradient, None for missing ones; collective when it runs.

    Gradients that are such means already are returned without an exchange. Slices stay separate
    slices: optimizers square them before they sum the slices of one row.

    Args:
        optimizer: optimizer that gets the leader's learning rate; None for a tape.
        gradients: tensors, slices, or None.
        batch: data of the running train step.
        exchange: function that averages the gradients.
    """
    if all(g is None or hasattr(g, _MEAN) for g in gradients):
        return gradients
    rate = learning_rate_variable(optimizer)
    found = [_tensor_or_slices(g) for g in gradients if g is not None]
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in found]
    rows = [g.indices for g in found if isinstance(g, tf.IndexedSlices)]
    dtype = tf.float64 if any(g.dtype == tf.float64 for g in values) else tf.float32
    given = [tf.cast(g, dtype) for g in values]
    given.append(tf.cast(0.0 if rate is None else rate, dtype))
    data = [leaf for leaf in tf.nest.flatten(batch, True) if is_data(leaf)]
    call = functools.partial(exchange, len(rows), len(given))
    sent = [*rows, *given, *data]
    if tf.executing_eagerly():
        means = [tf.constant(part) for part in call(*(part.numpy() for part in sent))]
    else:
        means = exchange_in_graph(call, sent, [dtype] * len(given))
    if rate is not None:
        set_learning_rate(optimizer, tf.reshape(means[-1], ()))
    averaged = iter(zip(means, found, strict=False))
    return [None if g is None else _like(*next(averaged)) for g in gradients]


@contextlib.contextmanager
def replaced_gradients(
    transform: Callable[[list[Any], list[Any]], list[Any]], *, nested: Callable[[], None]
) -> Iterator[None]:
    """Context in which tapes return *transform* applied to the gradients of variables.

    Args:
        transform: function of gradients, None for missing ones, and of the variables.
        nested: function called before it if another tape may differentiate the gradients, which is
            impossible for the results of *transform*.
    """
    original = tf.GradientTape.gradient

    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, target, sources, *args, **kwargs)
        leaves = tf.nest.flatten(sources)
        are_weights = bool(leaves) and all(map(is_variable, leaves))
        if not are_weights:
            return found
        if record.could_possibly_record():
            nested()
        return map_gradients(transform, found, sources)

    with replaced(tf.GradientTape, "gradient", gradient):
        yield


def _tensor_or_slices(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(gradient)
    values, indices = (tf.convert_to_tensor(g) for g in (gradient.values, gradient.indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _like(mean: Any, gradient: Any) -> Any:
    """*mean* as a gradient of the kind of *gradient*."""
    slices = isinstance(gradient, tf.IndexedSlices)
    if not tf.executing_eagerly():
        mean.set_shape(gradient.values.shape if slices else gradient.shape)
    mean = tf.cast(mean, gradient.dtype)
    if slices:
        mean = tf.IndexedSlices(mean, gradient.indices, gradient.dense_shape)
    setattr(mean, _MEAN, True)
    return mean
