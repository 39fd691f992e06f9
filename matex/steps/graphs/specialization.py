"""One graph for batches of any size, and a faster one for the most frequent size."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.steps.graphs.graph_inspection import has_loops
from matex.steps.graphs.hot_shape import HotShape
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted

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
    new graph. With a known size TensorFlow omits computations of the size: a seventh of the
    operations of a small step, and a third of those in the loop of a recurrent layer.

    Args:
        function: function to trace. If its trace for a known size raises an exception, as the
            script's own code may, the graph for any size stays the only one.
        signature: signature of the batch, with a free first axis.
        traced_s: seconds that a trace of *function* for a known size takes, if it has loops; those
            of its first trace by default.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        signature: Any,
        control: tf.TensorSpec,
        *,
        traced_s: float | None = None,
    ) -> None:
        self._function = function
        self._signature = signature
        self._control = control
        self._traced_s = traced_s
        self._any: Callable[..., Any] | None = None
        self._usual = HotShape()
        self._size = -1
        self._sized: Callable[..., Any] | None = None

    def trace(self) -> Callable[..., Any]:
        """Graph for any size; traced by the first call."""
        if self._any is None:
            started = time.perf_counter()
            self._any = self._traced(self._signature)
            if has_loops(self._any):
                self._usual = HotShape(pays_after_s=self._traced_s or time.perf_counter() - started)
        return self._any

    def __call__(self, batch: Any, control: np.ndarray) -> Any:
        size = keras_hooks.row_count(tf.nest.flatten(batch)[0])
        if size == self._size and self._sized is not None:
            return self._sized(batch, tf.constant(control))
        is_first, graph = self._any is None, self.trace()
        started = time.perf_counter()
        result = graph(batch, tf.constant(control))
        if not is_first and self._usual.is_hot(size, time.perf_counter() - started):
            self._specialize(size)
        return result

    def _specialize(self, size: int) -> None:
        sized = tf.nest.map_structure(
            lambda spec: keras_hooks.with_rows(spec, size), self._signature
        )
        with (
            contextlib.suppress(NotShareable),
            unheard(),
            attempted("a batch of known size cannot be traced"),
        ):
            self._size, self._sized = size, self._traced(sized)

    def _traced(self, signature: Any) -> Callable[..., Any]:
        # Call the concrete function: tf.function's search among traces is a tenth of a small step.
        function = tf.function(
            self._function, input_signature=(signature, self._control), autograph=False
        )
        traced: Callable[..., Any] = function.get_concrete_function()
        return traced
