"""Compiler of a fit's step: its graphs, its slots, and the executor that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ft
from matex.errors import NotShareable
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.executors.executor import StepExecutor
from matex.steps.executors.several_updates import SeveralUpdates
from matex.steps.executors.single_update import SingleUpdate
from matex.steps.executors.step_context import StepContext
from matex.steps.executors.virtual_update import VirtualUpdate
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.traced_step import AnyStep, CompiledStep, agreed_capacity, trace_anew
from matex.strategies import Strategy

__all__ = ["StepCompiler"]


class StepCompiler:
    """Current step of a model with its executor, both made again where the step must change.

    Args:
        model: model of the fit.
        context: context of the steps.
        strategy: strategy with which ranks share the work.
        check_finite: whether exchanges check for NaN and infinity.
        made_anew: function called with a step built anew, with more slots.
    """

    step: AnyStep
    executor: StepExecutor

    def __init__(
        self,
        model: Any,
        context: StepContext,
        strategy: Strategy,
        *,
        check_finite: bool,
        made_anew: Callable[[AnyStep], None],
    ) -> None:
        self._model = model
        self._context = context
        self._strategy = strategy
        self._check_finite = check_finite
        self._made_anew = made_anew

    @property
    def compiled(self) -> CompiledStep:
        """Functions and buffers of the step, for use by the next fit."""
        return CompiledStep(self.step, self.executor.exchange)

    def use(self, compiled: CompiledStep) -> None:
        """Make all further steps with *compiled*.

        Raises:
            NotShareable: virtual workers cannot share the step.
        """
        context, check_finite = self._context, self._check_finite
        step, exchange = compiled
        self.step = step
        context.rows.use(step)
        if context.services.virtual_workers:
            if isinstance(step, SeveralUpdatesStep):
                raise NotShareable(
                    "virtual workers (--deterministic) want a step that makes one update. "
                    "Received: a train_step that makes several; run it without --deterministic"
                )
            self.executor = VirtualUpdate(context, step, check_finite=check_finite)
        elif isinstance(step, SeveralUpdatesStep):
            self.executor = SeveralUpdates(context, step, check_finite=check_finite)
        else:
            self.executor = SingleUpdate(
                context, step, self._strategy, exchange=exchange, check_finite=check_finite
            )

    def retrace(self, *, capacity: SlotCapacity | None = None, checked: bool = True) -> None:
        """Trace the step again; see :func:`trace_anew`. Local."""
        step, source = self.step, self._context.source
        self.use(trace_anew(step, self._model, source, capacity=capacity, checked=checked))
        if capacity is not None or not checked:
            self._made_anew(self.step)

    def set_capacity(self, capacity: SlotCapacity) -> None:
        """Trace the step again with *capacity*, equal on all ranks, unless it has that. Local."""
        if self.step.capacity != capacity:
            self.retrace(capacity=capacity)

    def make_slots_for(self, communicator: ft.Communicator, wanted: SlotCapacity) -> None:
        """Trace the step again where a batch has more rows than its slots; collective then.

        Args:
            communicator: ranks of the run.
            wanted: capacity that the batch wants.
        """
        capacity = self.step.capacity
        if capacity is not None and self.step.has_slots and not self.step.accepts(wanted):
            self.set_capacity(capacity.grown(agreed_capacity(communicator, wanted)))
