"""The updates in the middle of a step's graph, made by gradients that are summed over the ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.layout import Header, Layout, segment_of
from matex.steps.graph_inspection import in_own_function
from matex.steps.step_parts import with_learning_rate
from matex.steps.update_exchanges import UpdateExchanges

__all__ = ["SharedUpdates"]

Gradients = list[Any]


class SharedUpdates:
    """Adds an exchange to the graph that is being traced for each update of an optimizer. Local.

    ``at_tapes`` is whether gradients of variables are exchanged where a tape gives them, and not
    where an optimizer gets them: a script may do to them what does not add up over rows, such as
    clipping by their norm. ``summed`` are the numbers of the exchanges whose gradients are sums
    over rows; those of the others are means.

    Args:
        exchanges: exchanges of the step.
        scales_rate: whether updates are made at the header's ``rate_factor`` times the rate.
    """

    def __init__(self, exchanges: UpdateExchanges, *, scales_rate: bool) -> None:
        self._exchanges = exchanges
        self._scales_rate = scales_rate
        self.at_tapes = False
        self.summed: set[int] = set()

    @contextlib.contextmanager
    def traced(self, weight: Any, header: Any, *, name: str) -> Iterator[None]:
        """Trace the step *name* inside.

        Args:
            weight: scalar, local rows / rows of the step.
            header: header of the rank's contribution.
            name: name of the step, for reasons.

        Raises:
            NotShareable: an update is made where the exchange would not be part of the graph.
        """
        graph = tf.compat.v1.get_default_graph()

        def check() -> None:
            if in_own_function(graph):  # which is traced once, for all graphs that call it
                raise NotShareable(f"{name} updates weights in a tf.function of its own")

        def apply(optimizer: Any, gradients: Gradients, variables: Any) -> None:
            check()
            changed = list(optimizer.trainable_variables if variables is None else variables)
            if not optimizer.built:
                with tf.init_scope():
                    optimizer.build(changed)
            factor = None
            if not self.at_tapes:
                own = with_learning_rate(header, optimizer)
                gradients, summed = self._whole(gradients, changed, weight, own)
                keras_hooks.set_learning_rate(optimizer, summed.learning_rate)
                factor = summed.rate_factor if self._scales_rate else None
            with keras_hooks.updating(), keras_hooks.scaled_learning_rate(optimizer, factor):
                optimizer.apply(gradients, variables)

        def taken(gradients: Gradients, variables: list[Any]) -> Gradients:
            check()
            return self._whole(gradients, variables, weight, header)[0]

        with contextlib.ExitStack() as stack:
            stack.enter_context(keras_hooks.replaced_apply(apply))
            if self.at_tapes:
                stack.enter_context(keras_hooks.replaced_gradients(taken))
            yield

    def _whole(
        self, gradients: Gradients, variables: list[Any], weight: Any, header: Any
    ) -> tuple[Gradients, Header]:
        """The *gradients* of the batch, and the header summed over the ranks."""
        given = [
            (tf.convert_to_tensor(gradient), variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None
        ]
        segments = [
            segment_of("gradient of", gradient, getattr(variable, "path", variable.name))
            for gradient, variable in given
        ]
        layout = Layout(gradients=tuple(segments), means=(), sums=())
        dtype = layout.dtype
        scale = 1.0 if len(self._exchanges.layouts) in self.summed else weight
        parts = [tf.cast(gradient, dtype) * tf.cast(scale, dtype) for gradient, _ in given]
        parts.append(tf.cast(header, dtype))
        *sums, summed = self._exchanges.in_graph(layout, parts)
        whole: Callable[[], Any] = iter(
            tf.cast(total, gradient.dtype) for total, (gradient, _) in zip(sums, given, strict=True)
        ).__next__
        complete = [None if gradient is None else whole() for gradient in gradients]
        return complete, Header(*tf.unstack(summed))
