"""``train_on_batch``: the shared step on a batch that the script passes in."""

from __future__ import annotations

import functools
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import NotShareable
from matex.fitting.loops.after_step import AfterStep
from matex.fitting.loops.free_axes import Axes, FreeAxes, every_axis, masked
from matex.fitting.loops.given_batches import GivenBatches
from matex.fitting.loops.loop_numbers import but_for_in_loop
from matex.fitting.synchronized_layers import normalized_alone, synchronized
from matex.fitting.whole_batches import slower
from matex.keras_hooks.batch_moments import wandering_biases
from matex.keras_hooks.models import is_in_float16
from matex.keras_hooks.optimizers import setting_when_built
from matex.keras_hooks.rows import sizes_of, values_of_row, with_free_axes
from matex.partition.slot_capacity import SlotCapacity
from matex.run.context import RunContext
from matex.sources.stream import flat_signature, leaves_of, rows_in
from matex.steps.building import build
from matex.steps.engine import StepEngine
from matex.steps.script_code.user_code import attempted
from matex.steps.traced_step import CompiledStep, trace_step

__all__ = ["BatchTrainers"]


def _tensors(given: Any) -> list[Any]:
    return [tensor for tensor in keras_hooks.flatten(given) if tensor is not None]


class BatchTrainer:
    """Shared steps of one model for one form of batches; collective to construct.

    ``adds_up_slices`` tells whether ranks add up slices of embeddings before they exchange them.

    Args:
        batch: first batch.
        free: axes of its tensors whose sizes may be others in later ones.
        number: number of the trainer in the script, from 0 in the order of first use, by which
            ranks detect that they call different models.

    Raises:
        NotShareable: the train step cannot be split at its optimizer.
    """

    def __init__(self, run: RunContext, model: Any, batch: Any, free: Axes, *, number: int) -> None:
        keras_hooks.verify(type(model))
        keras_hooks.refuse(model)
        keras_hooks.check_reductions(model)
        capacity = _capacity_of(batch)
        spec = keras_hooks.batch_spec(batch)
        self._source = GivenBatches(
            with_free_axes(flat_signature(spec), free),
            functools.partial(leaves_of, spec),
            number,
            most_rows=capacity.rows,
        )
        with attempted("the model cannot be built from its data before training"):
            build(model, self._source.as_data(self._source.signature))
        compiled = CompiledStep(
            trace_step(
                model,
                self._source,
                synchronized=synchronized(run, model),
                capacity=SlotCapacity(capacity.rows, (1,) * len(capacity.values)).grown(capacity),
            )
        )
        self.adds_up_slices = bool(compiled.step.summed_embeddings)
        model_state.broadcast(run.communicator, model)
        self._run = run
        self._model = model
        self._after = AfterStep(run, model)
        self._engine = StepEngine(run.steps, model, self._source, compiled)

    def accepts(self, batch: Any) -> bool:
        """Whether the step has slots for the rows of *batch*; local, equal on all ranks."""
        return self._engine.compiled.step.accepts(_capacity_of(batch))

    def step(self, batch: Any) -> dict[str, Any]:
        """Make one step on *batch*, tensors or None; return its logs; collective.

        Raises:
            NotShareable: its first batch shows that batches cannot be divided; on every rank.
            PreemptedExit: the ranks agreed to leave; on every rank.
        """
        tensors = _tensors(batch)
        report = self._engine.run(self._source.batch_of(tensors, rows_in(tensors)))
        self._after.step_done(report)
        return dict(report.logs)

    def differences(self) -> list[str]:
        """Names of the reasons for which its numbers differ from plain Keras's, printed once."""
        run, model, step = self._run, self._model, self._engine.compiled.step
        takes_sums = keras_hooks.traits_of(model.optimizer).takes_sums
        over_ranks = synchronized(run, model)
        return but_for_in_loop(
            run,
            shifted=step.shifted,
            summed=() if takes_sums else step.summed_embeddings,
            copied=setting_when_built(model),
            normalized_alone=normalized_alone(model, over_ranks),
            wandering=len(wandering_biases(model, over_ranks)),
            in_float16=is_in_float16(model),
        )


class BatchTrainers:
    """Shared ``train_on_batch`` of one model, for batches of all forms.

    Args:
        run: run of the steps.
        model: model being trained.
    """

    def __init__(self, run: RunContext, model: Any) -> None:
        self._run = run
        self._model = model
        self._by_form: dict[Any, BatchTrainer | None] = {}
        self._axes: dict[str, FreeAxes] = {}
        self._is_noted = False
        self._line = ""  # for the terminal, once a whole batch is computed

    def step(self, batch: Any, *, number: int) -> dict[str, Any] | None:
        """Make a shared step on *batch*; return its logs, None if it cannot be shared; collective.

        Args:
            number: see :class:`BatchTrainer`.
        """
        kind, sizes = _kind_of(batch), sizes_of(_tensors(batch))
        free = self._axes.setdefault(kind, FreeAxes()).of(sizes)
        form = kind, masked(sizes, free)
        trainer = self._by_form.get(form)
        is_new = form not in self._by_form or (trainer is not None and not trainer.accepts(batch))
        try:
            if is_new:
                trainer = BatchTrainer(self._run, self._model, batch, free, number=number)
                if free and trainer.adds_up_slices:  # which those of a known size may not
                    raise NotShareable("ranks do not know the number of look-ups of a row")
                self._by_form[form] = trainer
            logs = None if trainer is None else trainer.step(batch)
        except NotShareable as reason:
            if free and is_new:
                self._axes[kind].refuse()
                return self.step(batch, number=number)
            self._by_form[form] = None
            self._note(whole=str(reason), but_for=[])
            pace = slower(self._run.ranks.threads)
            self._line = f"every rank computes the whole batch, {pace}; because {reason}"
            return None
        if trainer is not None and not self._is_noted:
            self._is_noted = True
            self._note(but_for=trainer.differences())
        return logs

    def whole_step_made(self) -> None:
        """Print why a batch was computed whole, once. A batch that fails has its own error only."""
        line, self._line = self._line, ""
        if line and self._run.communicator.initial_size > 1:
            self._run.terminal.say_once_of_its_kind(line)

    def _note(self, **facts: Any) -> None:
        """Write the event of batches that are shared or refused."""
        self._run.records.note("loop", function="train_on_batch", **facts)


def _kind_of(batch: Any) -> str:
    """Text that is equal for batches that differ in sizes only."""
    spec = keras_hooks.batch_spec(batch)
    axes = every_axis(sizes_of(_tensors(batch)))
    return repr(leaves_of(spec, with_free_axes(flat_signature(spec), axes)))


def _capacity_of(batch: Any) -> SlotCapacity:
    """Capacity of slots that the rows of *batch* need."""
    tensors = _tensors(batch)
    return SlotCapacity(rows_in(tensors), tuple(map(values_of_row, tensors)))
