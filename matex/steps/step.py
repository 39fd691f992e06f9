"""A training step as three functions: contribution, exchange, commit.

*contribution* computes this rank's part for some samples, and leaves every variable unchanged;
*commit* applies the exchanged vector, and makes all changes; *fused* is both around the exchange
in one graph, which runs as long as no rank dies. An exchange that fails is an operation that
fails, so TensorFlow itself keeps the commit from running.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange import GraphExchange
from matex.exchange.layout import Header, Layout
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.control import Control
from matex.steps.graphs.graph_inspection import variables_in
from matex.steps.model_step import ModelStep
from matex.steps.script_code.dry_run import DryRun
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.python_reads import arrays_noted, follows_from_arguments
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.graph_separability import inseparable_in
from matex.steps.step_computation import Batch, Parts, StepComputation
from matex.steps.step_functions import EagerFunctions, GraphFunctions, StepFunctions

__all__ = ["Batch", "Step"]


class Step(ModelStep):
    """Step whose exchange follows its graph. Local to build.

    The model, its metrics and its optimizer must be built. Signatures have a free batch dimension,
    so a batch of another size, after a death, needs no retracing.

    ``contribution(batch, control) -> parts`` is local and changes nothing;
    ``commit(parts) -> logs`` is local, and changes the model by the exchanged values, the sum of
    all parts. If gradients are not summed, *parts* are this rank's own parts and, last, the sum of
    the last part.
    ``fused(batch, control) -> logs`` is collective; ``trace()``, after :meth:`connect`, traces its
    graph beforehand. Parts are as in :class:`Layout`.

    Args:
        signature: ``(x[, y[, sample_weight]])``, structures of ``tf.TensorSpec``.
        sums_gradients: whether gradients are exchanged; else the update uses the mean gradient over
            this rank's own rows, 0 if it has none.
        scales_rate: whether updates use the header's ``rate_factor`` times the learning rate.
        capacity: slots for the largest batch so far, if gradients of embeddings may be slices.
        rows: number of rows of each batch, for a step that may return rows; None by default.
        as_data: function from a batch of that signature to the argument of ``train_step``.

    Raises:
        NotShareable: the train step cannot be split at its optimizer, fails on batches of any size,
            or draws random numbers that differ between ranks.
    """

    def __init__(
        self,
        model: Any,
        signature: Batch,
        *,
        sums_gradients: bool = True,
        scales_rate: bool = False,
        capacity: SlotCapacity | None = None,
        rows: int | None = None,
        as_data: Callable[[Batch], Any] = keras_hooks.as_data,
    ) -> None:
        self._computation = StepComputation(
            model,
            as_data,
            sums_gradients=sums_gradients,
            scales_rate=scales_rate,
            capacity=capacity,
            rows=rows,
        )
        super().__init__(
            model,
            signature,
            as_data,
            self._computation.forward,
            self._computation.embedding_rows,
            {
                "sums_gradients": sums_gradients,
                "scales_rate": scales_rate,
                "capacity": self._computation.capacity,
            },
        )
        self.runs_eagerly = bool(model.run_eagerly)
        self._arrays: list[Any] = []
        self.may_vary = not keras_hooks.adds_up(model)  # so it must be checked whether it adds up
        self.may_count = not keras_hooks.counts_add_up(model)  # the same for its metrics alone
        self._functions: StepFunctions
        if self.runs_eagerly:
            self._functions = EagerFunctions(self._computation, DryRun(model))
        else:
            jit_compile = bool(model.jit_compile)
            self._functions = self._disabled_randomness.noted_in(
                lambda: GraphFunctions(self._computation, self._signature, jit_compile=jit_compile)
            )
        self._denominators = self._functions.denominators

    # What it is made of.

    @property
    def sums_gradients(self) -> bool:
        """Whether the exchange contains the gradients."""
        return self._computation.sums_gradients

    @property
    def layout(self) -> Layout | None:
        """Layout of the contribution; with run_eagerly, known after the first one."""
        return self._computation.layout

    @property
    def exchanged(self) -> Layout | None:
        """Part of the layout that the ranks exchange."""
        return self._computation.exchanged

    @property
    def variables(self) -> list[tuple[Any, Any]]:
        """Handle and dtype of each variable that the contribution's graph accesses."""
        return variables_in(self._functions.traced_contribution())

    @property
    def may_draw(self) -> bool:
        """Whether the step may draw random numbers undetected, because it runs as Python."""
        return self._functions.may_draw

    @property
    def optimizers(self) -> list[Any]:
        """Optimizers that the model has."""
        return keras_hooks.optimizers_of(self._model)

    # Its functions.

    def connect(self, exchange: GraphExchange) -> None:
        """Set the exchange that :meth:`fused` makes; once, before its first call."""
        self._functions.connect(exchange)

    def contribution(self, batch: Batch, control: Any) -> Parts:
        """Compute the parts that the samples of *batch* add to the step; local, changes nothing."""
        return self._functions.contribution(batch, control)

    def contribution_of(self, rows: int) -> Callable[[Batch, Any], Parts]:
        """:meth:`contribution` for exactly *rows* rows; a faster graph, traced by the first call.

        It may sum in another order.
        """
        return self._functions.contribution_of(rows)

    def warm_up(self, rows: Batch) -> None:
        """Compute the contribution of one row and drop it, so that its graph is ready. Local."""
        control = Control(1.0, 0.0, 1.0, Header(), [(0, 1)], self.denominators(rows))
        with unheard(), self._kept():
            self.contribution(rows, control.array())

    def dry_run(self) -> DryRun | None:
        """Contexts in which the step's eager code leaves nothing changed; None if it has none."""
        return DryRun(self._model) if self.runs_eagerly else None

    def _kept(self) -> contextlib.AbstractContextManager[None]:
        dry_run = self.dry_run()
        return contextlib.nullcontext() if dry_run is None else dry_run.run()

    def commit(self, parts: Parts) -> dict[str, Any]:
        """Apply the exchanged values to the model, and return the step's logs; local."""
        return self._computation.named(self._functions.commit(parts))

    def fused(self, batch: Batch, control: np.ndarray) -> dict[str, Any]:
        """Make the whole step, and return its logs; collective."""
        return self._computation.named(self._functions.fused(batch, control))

    def trace(self) -> None:
        """Trace the graph of :meth:`fused` beforehand; after :meth:`connect`. Local."""
        self._functions.trace()

    def quiet(self) -> tuple[Callable[[Batch, Any], Parts], list[Any]]:
        """``contribution`` without random layers and batch statistics, for the check. Local.

        Also the variables that it leaves unchanged. It is traced once more if the step's randomness
        differs between parts.
        """
        model = self._model
        known = [*model.variables, *keras_hooks.metric_variables(model), *model.optimizer.variables]
        variables = [variable.value for variable in known]
        if model.run_eagerly:
            return self._quiet_contribution, variables
        return self._quiet_graph, variables

    @functools.cached_property
    def _quiet_graph(self) -> Any:
        if not self._disabled_randomness.differs_in_parts and not self.runs_eagerly:
            return self._functions.traced_contribution()
        quiet = keras_hooks.graph_of(self._quiet_contribution, *self._signature)
        with self._kept():
            return quiet.get_concrete_function()

    @functools.cached_property
    def inseparable(self) -> str:
        """The reason why a gradient does not add up over rows, now or later; "" if it does. Local.

        It is found in the graph.
        """
        assert self.layout is not None
        graph, count = self.searched_graph, len(self.layout.gradients)
        return "" if graph is None else inseparable_in(graph, graph.graph.outputs[:count])

    @functools.cached_property
    def searched_graph(self) -> Any | None:
        """Graph of :meth:`quiet`, also if that runs eagerly; None if it cannot be traced."""
        with (
            contextlib.suppress(NotShareable),
            arrays_noted() as self._arrays,
            attempted("train_step cannot be traced"),
        ):
            return self._quiet_graph
        return None

    @property
    def makes_arrays_of_rows(self) -> bool:
        """Whether the script's Python makes an array of a tensor that depends on rows. Local.

        It is found in the trace of an eager step, which fails by that.
        """
        return self.searched_graph is None and any(map(follows_from_arguments, self._arrays))

    @property
    def counted(self) -> list[Any]:
        """Metric states, in the order of the layout's sums."""
        return list(keras_hooks.metric_variables(self._model))

    def quiet_going_on(self) -> Callable[[Batch, Any], Parts]:
        """:meth:`quiet` with metrics continued from their values, traced anew. Local."""

        def going_on(batch: Batch, control: Any) -> Parts:
            with self._computation.forward.state.going_on():
                return self._quiet_contribution(batch, control)

        if self.runs_eagerly:
            return going_on
        traced: Callable[[Batch, Any], Parts] = keras_hooks.graph_of(going_on, *self._signature)
        return traced

    def _quiet_contribution(self, batch: Batch, control: Any) -> Parts:
        with self._disabled_randomness.left_out():
            return self._computation.contribution(batch, control)
