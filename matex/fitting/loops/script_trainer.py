"""Shared steps of a function of the script, for arguments of one form."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import NotShareable
from matex.fitting.loops.after_step import AfterStep
from matex.fitting.loops.free_axes import Axes
from matex.fitting.loops.given_batches import GivenBatches
from matex.fitting.loops.script_arguments import ScriptArguments
from matex.partition.slot_capacity import SlotCapacity
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.sources.stream_batch import StreamBatch
from matex.steps.engine import StepEngine
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.step import Step
from matex.steps.traced_step import AnyStep, CompiledStep

__all__ = ["ScriptTrainer", "one_update"]


Call = Callable[..., Any]


class ScriptTrainer:
    """Shared steps of a function for arguments of one form; collective to construct.

    Args:
        first: arguments of its first call.
        free: axes of the batch whose sizes may be others in later calls.

    The step has one exchange, as those of ``fit``, if the function makes a single update. Others
    have their exchanges in the middle of the graph.
    """

    def __init__(
        self,
        run: RunContext,
        name: str,
        code: Call,
        first: ScriptArguments,
        free: Axes,
        *,
        number: int,
    ) -> None:
        self._run = run
        signature, capacity = first.signature_with(free), SlotCapacity(first.form.rows)
        self._source = GivenBatches(signature, first.form.as_data, number)
        if free:
            capacity = SlotCapacity(first.form.rows, (1,) * len(signature)).grown(first.capacity)
        with keras_hooks.generators_kept(), attempted("it cannot be traced"):
            self.model = keras_hooks.script_model(name, code, signature, first.form.as_data)
        self._options: dict[str, Any] = {
            "as_data": first.form.as_data,
            "rows": first.form.rows,
            "capacity": capacity,
        }
        self._is_free = bool(free)
        self._has_stepped = False
        step: AnyStep | None = None
        if not run.ranks.virtual_workers:  # for which loops are computed whole
            step = one_update(self.model, signature, **self._options)
        step = step or self._several_updates()
        model_state.broadcast(run.communicator, self.model)
        self._after = AfterStep(run, self.model)
        self._engine = self._engine_of(step)

    @property
    def shifted(self) -> set[str]:
        """Names of random functions whose rows are drawn otherwise than in one process."""
        return self._step.shifted

    @property
    def summed(self) -> dict[str, int]:
        """Bytes of embedding gradients that are exchanged as whole tables, by name."""
        return self._step.summed_embeddings

    @property
    def differs_from_fixed(self) -> bool:
        """Whether numbers may be others than with a trace for each size."""
        state = keras_hooks.noise_state(self.model).value.handle
        draws_by_trace = any(handle is state for handle, _ in self._step.variables)
        return bool(self.shifted or self.summed or draws_by_trace)

    @property
    def _step(self) -> AnyStep:
        return self._engine.compiled.step

    def _engine_of(self, step: AnyStep) -> StepEngine:
        step.python.note()
        return StepEngine(self._run.steps, self.model, self._source, CompiledStep(step))

    def _several_updates(self) -> SeveralUpdatesStep:
        return SeveralUpdatesStep(
            self.model,
            self._source.signature,
            synchronized=keras_hooks.normalizations(self.model),
            **self._options,
        )

    def accepts(self, given: ScriptArguments) -> bool:
        """Whether the step has slots for the batch of *given*; local, equal on all ranks."""
        return self._step.accepts(given.capacity)

    def step(self, given: ScriptArguments) -> Any:
        """Make one step, and return the function's result; collective.

        Raises:
            NotShareable: its first batch shows that batches cannot be divided; on every rank.
            PreemptedExit: the ranks agreed to leave; on every rank.
        """
        batch = self._source.batch_of(given.tensors, given.form.rows)
        report = self._engine.run(batch) if self._has_stepped else self._first(batch)
        self._has_stepped = True
        self._after.step_done(report)
        return self.model.result_of(dict(report.logs))

    def _first(self, batch: StreamBatch) -> StepReport:
        """Make the first step, with exchanges inside it if its parts add up only so; collective.

        What a function returns may be sums over rows, and it may clip gradients by their norm.
        """
        try:
            return self._engine.run(batch)
        except NotShareable:
            if isinstance(self._step, SeveralUpdatesStep):
                raise
        self._engine = self._engine_of(self._several_updates())
        if self._is_free and self.differs_from_fixed:
            raise NotShareable("batches of other sizes might be computed otherwise")
        return self._engine.run(batch)


def one_update(model: Any, signature: Any, **options: Any) -> Step | None:
    """Step with one exchange, of a function that makes one update; None for another. Local.

    Args:
        model: model of the function.
        signature: signature of its batches.
        options: keyword arguments of :class:`Step`.
    """
    if keras_hooks.normalizations(model):  # over the rows of all ranks, in the forward pass
        return None
    with contextlib.suppress(NotShareable), unheard():
        return Step(model, signature, **options)
    return None
