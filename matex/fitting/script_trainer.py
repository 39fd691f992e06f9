"""Shared steps of a function of the script, for arguments of one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.free_axes import Axes
from matex.fitting.listeners import Cursor
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.resizing import Resizing
from matex.fitting.script_arguments import ScriptArguments
from matex.partition.room import Room
from matex.run.context import RunContext
from matex.run.preemption import checkpoint_and_exit
from matex.sources.stream import Stream, digest
from matex.sources.stream_batch import StreamBatch
from matex.steps.engine import StepEngine
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.traced_step import CompiledStep
from matex.steps.user_code import attempted

__all__ = ["ScriptTrainer"]

_NO_EPOCH = Cursor(0, 0, 0)

Call = Callable[..., Any]


class _GivenRows:
    """Source of the batches with which the script calls a function. Local."""

    explanation = Stream.explanation
    most_rows = None

    def __init__(self, first: ScriptArguments, free: Axes, number: int) -> None:
        self.signature = first.signature_with(free)
        self._digest = number
        self.as_data = first.as_data

    def batch_of(self, given: ScriptArguments) -> StreamBatch:
        """Global batch of the arguments of a call."""
        self._digest = digest(self._digest, given.tensors, last=False)
        return StreamBatch(given.tensors, (0, given.rows), self._digest, last=False)

    def sample(self) -> None:
        """Return None: no newcomer joins these steps."""

    def after_step(self, step: int) -> tuple[int, int]:
        return 0, 0


class ScriptTrainer:
    """Shared steps of a function for arguments of one form; collective to construct.

    Args:
        first: arguments of its first call.
        free: axes of the batch whose sizes may be others in later calls.

    ``differs_from_fixed`` tells whether numbers may be others than with a trace for each size.
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
        self._source = _GivenRows(first, free, number)
        signature, room = self._source.signature, Room(first.rows)
        if free:
            room = Room(first.rows, (1,) * len(signature)).grown(first.room)
        with keras_hooks.generators_kept(), attempted("it cannot be traced"):
            self.model = keras_hooks.script_model(name, code, signature, first.as_data)
        step = SeveralUpdatesStep(
            self.model,
            signature,
            as_data=first.as_data,
            rows=first.rows,
            room=room,
            synchronized=keras_hooks.normalizations(self.model),
        )
        self.shifted = step.shifted
        self.summed = step.summed_embeddings
        state = keras_hooks.noise_state(self.model)
        self.differs_from_fixed = bool(self.shifted or self.summed or _draws_by_trace(step, state))
        model_state.broadcast(run.communicator, self.model)
        self._replicas = ReplicaCheck(run, self.model, every=run.config.check_every)
        self._resizing = Resizing(run)
        self._engine = StepEngine(run, self.model, self._source, CompiledStep(step))

    def takes(self, given: ScriptArguments) -> bool:
        """Whether the step has room for the batch of *given*; local, equal on all ranks."""
        return self._engine.compiled.step.takes(given.room)

    def step(self, given: ScriptArguments) -> Any:
        """Make one step, and return the function's result; collective.

        Raises:
            NotShareable: its first batch shows that batches cannot be divided; on every rank.
            PreemptedExit: the ranks agreed to leave; on every rank.
        """
        run = self._run
        report = self._engine.run(self._source.batch_of(given))
        run.ledger.expect_samples(report.planned)
        run.step_done(report, model=self.model)
        self._replicas.step_done(report, _NO_EPOCH)
        self._resizing.step_done(report, _NO_EPOCH)
        if report.agreed.leave and not run.script_checkpoints:
            checkpoint_and_exit(run, None)
        return self.model.result_of(dict(report.logs))


def _draws_by_trace(step: SeveralUpdatesStep, state: Any) -> bool:
    """Whether *step* draws by operations of TensorFlow that have a state for each trace."""
    handle = state.value.handle
    return any(handle is other for other, _ in step.rollback.variables)
