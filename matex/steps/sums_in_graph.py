"""Sums over the ranks in the middle of a step's graph, differentiable by tapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from matex.errors import NotShareable
from matex.exchange.layout import Layout, Segment
from matex.steps.graphs.graph_inspection import in_own_function
from matex.steps.update_exchanges import UpdateExchanges

__all__ = ["SumsInGraph"]


class SumsInGraph:
    """Adds exchanges of moments to the graph being traced. Local.

    The gradient that a tape computes on a rank is of the rank's own mean over rows, or of its own
    sum: in the first case the whole is the mean over ranks, weighted by their rows. A gradient
    passed back through a sum over the ranks thus becomes ``sum(scale * gradient) / scale``,
    where *scale* is the rank's share of the rows, or 1; through that operation, by a tape
    around the first, it becomes one of the same form.

    Args:
        exchanges: exchanges of the step.
        summed: numbers of the exchanges of gradients that are sums over rows, not means.
    """

    def __init__(self, exchanges: UpdateExchanges, summed: set[int]) -> None:
        self._exchanges = exchanges
        self._summed = summed

    @contextlib.contextmanager
    def traced(self, weight: Any, header: Any, *, name: str) -> Iterator[Callable[[Any, str], Any]]:
        """Context in which the step *name* is traced.

        Args:
            weight: scalar, local rows / rows of the step.
            header: header of the rank's contribution.
            name: name of the step, for error messages.

        Yields:
            Function that returns the sum over the ranks of a float64 vector. Its second argument
            names the layer whose moments these are; it raises NotShareable if an exchange would not
            be part of the graph.
        """
        graph = tf.compat.v1.get_default_graph()
        # A rank without rows sends zeros; its divisor has no effect.
        share = tf.cast(tf.where(weight > 0, weight, 1), tf.float64)
        header = tf.cast(header, tf.float64)

        def total(vector: Any, of: str) -> Any:
            if tf.compat.v1.get_default_graph() is not graph:
                where = "a tf.function of its own" if in_own_function(graph) else "a loop or branch"
                raise NotShareable(f"{name} normalises by the moments of a batch in {where}")
            return summed(vector, None, f"moments of {of}")

        def summed(vector: Any, scale: Any, what: str) -> Any:
            @tf.custom_gradient
            def operation(own: Any) -> Any:
                def passed_back(gradient: Any) -> Any:
                    is_sum = self._exchanges.next_number in self._summed
                    back = tf.ones((), tf.float64) if is_sum else share
                    back = back if scale is None else back / scale
                    return summed(gradient, back, f"gradient of the {what}")

                return self._exchanged(own, scale, header, what), passed_back

            return operation(vector)

        yield total

    def _exchanged(self, vector: Any, scale: Any, header: Any, what: str) -> Any:
        """Sum of *vector* over the ranks, weighted by *scale* if that is not None."""
        segment = Segment(what, tuple(vector.shape), "float64")
        if scale is None:
            layout = Layout(gradients=(), means=(), sums=(segment,))
            (total,) = self._exchanges.in_graph(layout, [tf.concat([vector, header], 0)])
            return total[: segment.size]
        layout = Layout(gradients=(segment,), means=(), sums=())
        total, _ = self._exchanges.in_graph(layout, [vector * scale, header])
        return total / scale
