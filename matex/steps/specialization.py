"""One graph for batches of any size, and a faster one for the most frequent size."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.steps.hot_shape import HotShape

__all__ = ["SpecializedFunction", "concrete"]


def concrete(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """*function* as one graph for *signature*, traced by the first call, in a graph or not. Local.

    TensorFlow counts traces by the line of the Python function, and would warn at the fifth model.
    """
    made: list[Callable[..., Any]] = []

    def call(*arguments: Any) -> Any:
        if not made:
            traced = tf.function(function, input_signature=signature, autograph=False)
            with tf.init_scope():  # of no graph that is being traced
                made.append(traced.get_concrete_function())
        return made[0](*arguments)

    return call


class SpecializedFunction:
    """``function(batch, control)`` as graphs. Local.

    The graph for any size always exists, so that a share of another size, after a death, needs no
    new graph. With a known size TensorFlow omits computations of the size, a seventh of the
    operations of a small step.

    Args:
        signature: signature of the batch, with a free first axis.
    """

    def __init__(
        self, function: Callable[[Any, Any], Any], signature: Any, control: tf.TensorSpec
    ) -> None:
        self._function = function
        self._signature = signature
        self._control = control
        self._any: Callable[..., Any] | None = None
        self._usual = HotShape()
        self._size = -1
        self._sized: Callable[..., Any] | None = None

    def trace(self) -> Callable[..., Any]:
        """Graph for any size; traced by the first call."""
        self._any = self._any or self._traced(self._signature)
        return self._any

    def __call__(self, batch: Any, control: np.ndarray) -> Any:
        size = keras_hooks.row_count(tf.nest.flatten(batch)[0])
        if size == self._size and self._sized is not None:
            return self._sized(batch, tf.constant(control))
        started = time.perf_counter()
        result = self.trace()(batch, tf.constant(control))
        if self._usual.is_hot(size, time.perf_counter() - started):
            self._size, self._sized = size, self._traced(self._of_size(size))
        return result

    def _traced(self, signature: Any) -> Callable[..., Any]:
        # Call the concrete function: tf.function's search among traces is a tenth of a small step.
        function = tf.function(
            self._function, input_signature=(signature, self._control), autograph=False
        )
        traced: Callable[..., Any] = function.get_concrete_function()
        return traced

    def _of_size(self, size: int) -> Any:
        return tf.nest.map_structure(
            lambda spec: keras_hooks.with_rows(spec, size), self._signature
        )
