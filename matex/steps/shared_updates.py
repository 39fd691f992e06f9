"""Updates in the middle of a step's graph, by gradients that are summed over the ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.layout import Header, Layout, segment_of
from matex.keras_hooks.optimizers import build_for
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.embedding_rows import EmbeddingRows, Placed, places_of
from matex.steps.graphs.graph_inspection import in_own_function
from matex.steps.step_computation import with_learning_rate
from matex.steps.update_exchanges import UpdateExchanges

__all__ = ["SharedUpdates"]

Gradients = list[Any]


class _Computed(NamedTuple):
    """This rank's rows, their share of the step, and their places in the batch."""

    weight: Any
    batch: Any
    placed: Placed


class SharedUpdates:
    """Adds an exchange for each optimizer update to the graph being traced. Local.

    ``at_tapes`` is whether gradients are exchanged where a tape computes them, and not where an
    optimizer receives them: a script may apply functions that do not add up over rows, such as
    clipping by their norm. ``summed`` are the numbers of the exchanges whose gradients are sums
    over rows; those of the others are means. ``whole_tables`` maps variables whose slices are made
    dense, for an optimizer that would take slices, to their bytes; ``has_slots`` is whether other
    gradients are exchanged as slices; ``optimizers`` are those that make the updates.

    Args:
        exchanges: exchanges of the step.
        scales_rate: whether updates use the header's ``rate_factor`` times the learning rate.
        capacity: slots for the largest batch so far, if gradients of embeddings may be slices.
    """

    def __init__(
        self, exchanges: UpdateExchanges, *, scales_rate: bool, capacity: SlotCapacity | None
    ) -> None:
        self._exchanges = exchanges
        self._scales_rate = scales_rate
        self._capacity = capacity
        self._slots: dict[int, EmbeddingRows] = {}  # by the number of the exchange
        self.whole_tables: dict[str, int] = {}
        self.has_slots = False
        self.at_tapes = False
        self.summed: set[int] = set()
        self.optimizers: list[Any] = []

    def holds(self, capacity: SlotCapacity | None) -> bool:
        """Whether a batch of *capacity* needs no more slots for slices."""
        return not self.has_slots or all(slots.holds(capacity) for slots in self._slots.values())

    @contextlib.contextmanager
    def traced(
        self, weight: Any, header: Any, *, batch: Any, placed: Placed, name: str
    ) -> Iterator[None]:
        """Context in which the step *name* is traced.

        Args:
            weight: scalar, local rows / rows of the step.
            header: header of the rank's contribution.
            batch: rows of this rank.
            placed: function that puts rows in their places of the batch.
            name: name of the step, for error messages.

        Raises:
            NotShareable: an update is made where the exchange would not be part of the graph, or
                gradients are exchanged through which another tape may differentiate.
        """
        graph = tf.compat.v1.get_default_graph()
        self.whole_tables, self.has_slots = {}, False
        own_rows = _Computed(weight, batch, placed)

        def check() -> None:
            keras_hooks.exchange_outside_xla()
            if in_own_function(graph):  # which is traced once, for all graphs that call it
                raise NotShareable(f"{name} updates weights in a tf.function of its own")

        def apply(optimizer: Any, gradients: Gradients, variables: Any) -> None:
            check()
            changed = list(optimizer.trainable_variables if variables is None else variables)
            if not optimizer.built:
                build_for(optimizer, changed)
            if not any(optimizer is known for known in self.optimizers):
                self.optimizers.append(optimizer)
            factor = None
            if not self.at_tapes:
                own = with_learning_rate(header, optimizer)
                linear = keras_hooks.traits_of(optimizer).takes_sums
                gradients, summed = self._whole(gradients, changed, own_rows, own, linear=linear)
                keras_hooks.set_learning_rate(optimizer, summed.learning_rate)
                factor = summed.rate_factor if self._scales_rate else None
            with keras_hooks.updating(), keras_hooks.scaled_learning_rate(optimizer, factor):
                optimizer.apply(gradients, variables)

        def summed(gradients: Gradients, variables: list[Any]) -> Gradients:
            check()
            return self._whole(gradients, variables, own_rows, header)[0]

        def nested() -> None:
            raise NotShareable(f"{name} takes gradients of weights within another tape")

        with contextlib.ExitStack() as stack:
            stack.enter_context(keras_hooks.replaced_apply(apply))
            if self.at_tapes:
                stack.enter_context(keras_hooks.replaced_gradients(summed, nested=nested))
            yield

    def _whole(
        self,
        gradients: Gradients,
        variables: list[Any],
        own: _Computed,
        header: Any,
        *,
        linear: bool = False,
    ) -> tuple[Gradients, Header]:
        """*gradients* of the whole batch, and the header summed over the ranks.

        Args:
            own: rows of this rank.
            linear: whether the receiver treats slices of one index like their sum.
        """
        given = [pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None]
        number = self._exchanges.next_number
        slots = self._slots.setdefault(number, EmbeddingRows(self._capacity))
        values, places = slots.fill(
            [gradient for gradient, _ in given], [each for _, each in given], own.batch, own.placed
        )
        self.has_slots |= slots.has_slots
        if not linear:
            self.whole_tables |= slots.whole_tables
        ordered = slots.in_order(given)
        layout = Layout(
            gradients=tuple(
                segment_of("gradient of", value, getattr(variable, "path", variable.name))
                for value, (_, variable) in zip(values, ordered, strict=True)
            ),
            means=(),
            sums=tuple(places_of(places)),
            slots=slots.count,
        )
        dtype = layout.dtype
        scale = 1.0 if number in self.summed else own.weight
        parts = [tf.cast(value, dtype) * tf.cast(scale, dtype) for value in values]
        counted = [tf.cast(place, dtype) for place in places]
        parts.append(tf.concat([*counted, tf.cast(header, dtype)], 0))
        *sums, auxiliary = self._exchanges.in_graph(layout, parts)
        *counted, summed = tf.split(auxiliary, layout.auxiliary_sizes)
        totals = [
            tf.cast(total, gradient.dtype)
            for total, (gradient, _) in zip(sums, ordered, strict=True)
        ]
        whole = iter(slots.empty(totals, counted))
        complete = [None if gradient is None else next(whole) for gradient in gradients]
        return complete, Header(*tf.unstack(summed))
