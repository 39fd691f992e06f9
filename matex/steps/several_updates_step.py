"""A training step with exchanges in the middle of its graph.

GANs, actor-critic models and alternating steps make several updates in sequence, and the second is
computed from weights that the first has changed. So every update has its own exchange in the
middle of the graph: this rank's gradients go in, those of the batch come out, and the optimizer
makes the same update with them on all ranks. Metrics, statistics and the step's logs follow in a
last exchange, after the graph.

BatchNormalization over the rows of all ranks makes any step one of this kind, even with a single
update: its moments are exchanged in the forward pass, and their gradients in the backward pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange import GraphExchange, Header, Layout
from matex.keras_hooks.rows import known_rows
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.auxiliary_part import auxiliary_vector
from matex.steps.control import header_in, placed_in, weight_in
from matex.steps.forward_pass import ForwardPass
from matex.steps.graphs.graph_inspection import refuse_drawing, refuse_summaries
from matex.steps.graphs.specialization import SpecializedFunction, concrete
from matex.steps.graphs.subgraph import function_of
from matex.steps.model_step import ModelStep
from matex.steps.rollback import Rollback
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.branches import takes_branch_by_rows
from matex.steps.separability.graph_separability import inseparable_in
from matex.steps.shared_updates import SharedUpdates
from matex.steps.step_computation import Batch
from matex.steps.sums_in_graph import SumsInGraph
from matex.steps.update_exchanges import UpdateExchanges

__all__ = ["SeveralUpdatesStep"]


class SeveralUpdatesStep(ModelStep):
    """Step with exchanges in the middle of its graph. Local to build.

    ``run(batch, control)`` makes the updates and returns this rank's last contribution; it is
    collective, by :attr:`exchanges`, and changes the model. ``commit(parts)`` applies the sum of
    the last contributions. :attr:`rollback` restores what both have changed.

    Args:
        model: built model, with built metrics.
        signature: structure of ``tf.TensorSpec`` with a free batch dimension.
        as_data: function from a batch of that signature to the argument of ``train_step``.
        scales_rate: whether updates use the header's ``rate_factor`` times the learning rate.
        rows: number of rows of each batch, for a step that may return rows; None by default.
        capacity: slots for the largest batch so far, if gradients of embeddings may be slices; None
            by default.
        synchronized: BatchNormalization layers that normalise over the rows of all ranks.

    Raises:
        NotShareable: the step makes no update, cannot be traced, or depends on a rank's state.
    """

    def __init__(
        self,
        model: Any,
        signature: Batch,
        *,
        as_data: Callable[[Batch], Any] = keras_hooks.as_data,
        scales_rate: bool = False,
        rows: int | None = None,
        capacity: SlotCapacity | None = None,
        synchronized: Sequence[Any] = (),
    ) -> None:
        forward = ForwardPass(model, as_data, rows=rows, strict=True)
        self.exchanges = UpdateExchanges()
        self.updates = SharedUpdates(self.exchanges, scales_rate=scales_rate, capacity=capacity)
        super().__init__(
            model,
            signature,
            as_data,
            forward,
            self.updates,
            {
                "sums_gradients": True,
                "scales_rate": scales_rate,
                "capacity": capacity,
                "synchronized": synchronized,
            },
            synchronized=synchronized,
        )
        self._rows = rows
        self._synchronized = synchronized
        self._quiet_graph: Any = None
        self._sums = SumsInGraph(self.exchanges, self.updates.summed)
        self.last_exchange: GraphExchange | None = None
        self.layout: Layout | None = None
        self._trace()

    def _trace(self) -> None:
        self.exchanges.forget()  # the layouts may have changed
        self._quiet_graph = self.last_exchange = None
        self._forward.begin_anew()
        traced, drawn = keras_hooks.with_global_generator(self._first_trace)
        refuse_drawing(traced, drawn, name=self.name)
        refuse_summaries(traced, name=self.name)
        if takes_branch_by_rows(traced):
            raise NotShareable(f"{self.name} takes a branch by the values of rows")
        if not self.exchanges.layouts:
            raise NotShareable(f"{self.name} makes no update by an optimizer")
        assert self.layout is not None
        if self._forward.denominators:
            given, purpose = self._signature[0], "the masks or weights of a loss"
            self._denominators = function_of(
                traced, self._forward.denominators, given, purpose=purpose
            )
        self.rollback: Rollback = Rollback(traced)
        self.variables = self.rollback.variables
        specs = [tf.TensorSpec(shape, self.layout.dtype) for shape in self.layout.shapes]
        self._commit: Callable[..., Any] = concrete(self._applied, (specs,))

    def _first_trace(self) -> tuple[Callable[..., Any], list[str]]:
        """Graph of the step, and the random generators that its trace drew from."""
        self._run = SpecializedFunction(self._made, *self._signature)
        with keras_hooks.generators_kept() as drawn, attempted(f"{self.name} cannot be traced"):
            traced = self._disabled_randomness.noted_in(self._run.trace)
        return traced, drawn

    def add_up(self, updates: Iterable[int], values: Iterable[str]) -> None:
        """Treat gradients and values as sums over rows, not as means, and retrace. Local.

        Args:
            updates: numbers of the updates whose gradients are sums.
            values: names of returned values that are sums.
        """
        self.updates.summed |= set(updates)
        self._forward.auxiliary.summed |= set(values)
        self._trace()

    def exchange_at_tapes(self) -> None:
        """Exchange gradients where tapes compute them from now on, and retrace. Local."""
        self.updates.at_tapes = True
        self.updates.summed.clear()
        self._trace()

    @property
    def counted(self) -> list[Any]:
        """Metric states, if some are not Keras's; in the order of the layout's sums."""
        model = self._model
        return [] if keras_hooks.counts_add_up(model) else list(keras_hooks.metric_variables(model))

    @property
    def may_be_sums(self) -> bool:
        """Whether gradients and values may be sums over rows, which only the check can tell."""
        return self._rows is not None

    def run(self, batch: Batch, control: np.ndarray) -> np.ndarray:
        """Make the updates, and return this rank's part of the last exchange; collective."""
        return np.asarray(self._run(batch, control))

    def commit(self, parts: list[Any]) -> dict[str, Any]:
        """Apply the sum of the last contributions, and return the step's logs; local."""
        return self._forward.auxiliary.named(self._commit(parts))

    def quiet(self) -> Any:
        """Graph of :meth:`run` without randomness, traced once. Local."""
        if not self._disabled_randomness.differs_in_parts:
            return self._run.trace()
        self._quiet_graph = self._quiet_graph or self._traced_quietly(goes_on=False)
        return self._quiet_graph

    @property
    def inseparable(self) -> str:
        """The reason why a result does not add up over rows, now or later; "" if all do. Local."""
        return inseparable_in(self.quiet())

    def quiet_going_on(self) -> Any:
        """:meth:`quiet` with metrics continued from their values, traced anew. Local."""
        return self._traced_quietly(goes_on=True)

    def _traced_quietly(self, *, goes_on: bool) -> Any:
        def quiet(batch: Batch, control: Any) -> Any:
            with self._forward.state.going_on(goes_on), self._disabled_randomness.left_out():
                return self._made(batch, control)

        return keras_hooks.graph_of(quiet, *self._signature).get_concrete_function()

    # In the graph.

    def _made(self, batch: Batch, control: Any) -> Any:
        weight, header = weight_in(control), header_in(control)
        known = known_rows(batch)
        self.exchanges.begin_trace(known)
        within = self._exchanging(batch, control, weight, header)
        passed = self._forward.run(batch, control, weight, within, rows=known)
        means, counts = self._forward.auxiliary.segments()
        self.layout = self.exchanges.end_trace(Layout(gradients=(), means=means, sums=counts))
        return auxiliary_vector(passed, header, weight=weight, dtype=self.layout.dtype)

    @contextlib.contextmanager
    def _exchanging(self, batch: Batch, control: Any, weight: Any, header: Any) -> Iterator[None]:
        """Context of a trace in which gradients and moments are exchanged."""
        most_rows = self.capacity and self.capacity.rows

        def placed(tensor: Any) -> Any:
            return placed_in(control, tensor, most_rows)

        with (
            self.updates.traced(weight, header, batch=batch, placed=placed, name=self.name),
            self._sums.traced(weight, header, name=self.name) as total,
            keras_hooks.moments_over_ranks(self._synchronized, total),
        ):
            yield

    def _applied(self, parts: list[Any]) -> dict[str, Any]:
        assert self.layout is not None
        *rest, header = tf.split(parts[-1], self.layout.auxiliary_sizes)
        self._forward.advance_noise(Header(*tf.unstack(header)).samples)
        means = len(self.layout.means)
        with self.python.as_noted():
            return self._forward.auxiliary.commit(rest[:means], rest[means:])
