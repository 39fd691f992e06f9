"""A fit whose batches cannot be divided: every rank computes whole batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import NotShareable
from matex.fitting.epoch_parts import Logs, TrainFunction, WholeBatch
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.keras_hooks.metrics import FlatLogs, as_returned, names_of
from matex.records.equality import in_words
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.processor import Threads
from matex.steps.bitflips import flip_injected

__all__ = ["WholeBatches", "slower"]

_EVERY = 64  # steps between comparisons of weights, by default, where gradients always differ


def slower(threads: Threads) -> str:
    """Phrase about the time it costs when every rank computes the whole batch; pure.

    Args:
        threads: threads and cores of a rank.
    """
    own, cores = threads
    if own >= cores:
        return "exact but no faster"
    return f"exact but slower than in one process: each has {own} of the {cores} cores of its host"


class WholeBatches:
    """Makes the steps of one fit in place of shared ones; the first step prints a line about it.

    So a step that fails in plain Keras as well ends with its own error and nothing else. It is the
    :class:`matex.fitting.epoch_iterator.WholeBatchSteps` of the fit's iterator, if there is one.

    Args:
        run: ranks and options of the run.
        model: model being trained.
        replicated: update that keeps the gradients equal.
        number: number of the fit in the script, from 0.
        leaves_nan: whether a callback stops at a NaN, so that none stops the run; False by
            default.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        replicated: ReplicatedUpdate,
        *,
        number: int,
        leaves_nan: bool = False,
    ) -> None:
        self._run = run
        self._ledger = run.records.ledger
        self._model = model
        self._replicated = replicated
        self._number = number
        self._leaves_nan = leaves_nan
        self._replicas = ReplicaCheck(run, model, every=run.config.check_every)
        self._compares_at = 0
        self._has_begun = False
        self._is_iterating = False
        self._trained_by: TrainFunction | None = None
        self._train: TrainFunction
        self._lines: list[str] = []  # for the terminal, until they are printed
        self._but_for: list[str] = []
        self._from_step = 0
        self._was_told_otherwise = False

    @property
    def has_begun(self) -> bool:
        """Whether batches turned out not to be divisible."""
        return self._has_begun

    def would_differ(self, but_for: list[str], *, told: list[str]) -> None:
        """Note how numbers would differ from plain Keras's if no batch could be divided. Local.

        Args:
            but_for: names of the reasons, as in the event ``fit``.
            told: names of the reasons for divided batches.
        """
        self._but_for, self._from_step = but_for, self._ledger.step
        self._was_told_otherwise = told != but_for

    def cannot_share(self, reason: NotShareable) -> None:
        """Begin, because batches that were to be shared cannot be divided; local."""
        self.begin(reason, is_iterating=True)

    def begin(self, reason: NotShareable, *, is_iterating: bool) -> None:
        """Begin, for a reason that all ranks know; local.

        Args:
            reason: reason for which batches cannot be divided.
            is_iterating: whether an iterator of shared steps supplies the batches.
        """
        run = self._run
        if run.elastic.joining is not None and run.communicator.world.awaits_admission:
            why = "every rank computes whole batches in the fit that they are in"
            run.elastic.joining.leave(why, for_good=False)
        kept = (
            "checkpoints are made of it at ends of epochs only"
            if is_iterating
            else "no checkpoint is made of this fit"
        )
        but = f"; {kept}" if run.saver.is_on else ""
        if run.config.strategy != "sync":
            but += f"; strategy {run.config.strategy} is not used"
        if run.config.shuffle == "ring" and not is_iterating:
            but += "; shuffle ring is not used"
        if run.communicator.initial_size > 1:
            pace = slower(run.ranks.threads)
            self._lines = [f"every rank computes the whole batch, {pace}; because {reason}{but}"]
            if is_iterating and self._ledger.step == self._from_step and self._was_told_otherwise:
                self._lines.append(f"numbers: {in_words(self._but_for)}")
        self._has_begun, self._is_iterating = True, is_iterating
        self._replicated.begin_fit(leaves_nan=self._leaves_nan)
        run.records.note(
            "fit",
            fit=self._number,
            whole=str(reason),
            but_for=self._but_for,
        )

    def step_of(self, make: Callable[[], Logs]) -> Logs:
        """Make a step by *make*; return its logs, equal on all ranks; collective.

        Without an iterator of shared steps it makes those of one call of Keras's train function.
        """
        at_once = 1 if self._is_iterating else self._model.steps_per_execution
        replicated, steps = self._replicated, self._run.steps
        flip_injected(self._model, steps.faults, step=steps.step)
        replicated.begin_comparison()
        with replicated.counts.train_step(has_several=at_once > 1), replicated.own_error():
            logs = make()
        for line in self._lines:
            self._run.terminal.say_once_of_its_kind(line)
        self._lines = []
        sources = self._healed() or replicated.finite
        return self._of_one_rank(logs, sources) if replicated.differs or sources else logs

    def _healed(self) -> tuple[int, ...]:
        """Compare weights if gradients differed; return whose state others got, if so; collective.

        Between two steps, because within an update variables may change. Where gradients differ in
        each step, by random draws or by rounding, weights are compared at intervals.

        Raises:
            ReplicasDiverged: on every rank, if weights differ and no majority agrees.
        """
        run, replicated = self._run, self._replicated
        if not replicated.are_uneven:
            return ()
        every = run.config.check_every
        is_new = (replicated.have_drawn or replicated.finite) and not replicated.differs
        if every != 0 and (is_new or self._ledger.step >= self._compares_at):
            changing = {id(v) for v in keras_hooks.changing_variables(self._model)}
            variables = model_state.variables_of(self._model)
            fixed = [v for v in variables if id(v) not in changing]  # others may differ by draws
            good = self._replicas.compare(f"after step {self._ledger.step - 1}", fixed)
            if good:
                return good
            self._compares_at = self._ledger.step + (_EVERY if every is None else every)
        if replicated.have_drawn:
            replicated.tell_differing()
        return ()

    def step(self, original: TrainFunction, batch: WholeBatch) -> Logs:
        """Make the step of *batch* by Keras's own train function; return its logs; collective."""
        run, replicated = self._run, self._replicated
        if batch.is_of_stream:
            self._ledger.expect_samples(batch.rows)
        replicated.samples = batch.rows
        started = time.perf_counter()
        train = self._train_function(original, batch)
        logs = self.step_of(lambda: train(batch.tensors))
        if replicated.samples:  # one rank averages nothing, which counts steps elsewhere
            replicated.samples = 0
            taken = time.perf_counter() - started
            run.steps.step_done(
                StepReport(samples=batch.rows, planned=batch.rows, step_s=taken, exchange_s=0.0)
            )
        return logs

    def _train_function(self, original: TrainFunction, batch: WholeBatch) -> TrainFunction:
        """*original* as a function of the tensors of batches like *batch*. Local."""
        if self._trained_by is not original:
            as_data = batch.as_data

            def train(tensors: Any) -> Logs:
                return original(iter([as_data(tensors)]))

            # If a batch's rows are counted at trace time, Keras counts losses differently.
            free = batch.signature is not None and not self._model.run_eagerly
            self._train = keras_hooks.graph_of(train, batch.signature) if free else train
            self._trained_by = original
        return self._train

    def all_want_stop(self, wanted: bool) -> bool:
        """Whether all ranks want to stop before this step; collective."""
        return self._run.communicator.agree(wanted)

    def any_stops(self, wanted: bool) -> bool:
        """Whether any rank's callbacks want to stop after this step; collective."""
        return not self._run.communicator.agree(not wanted)

    def _of_one_rank(self, logs: Logs, sources: Sequence[int]) -> Logs:
        """Metrics, statistics and logs of one rank's step, for all ranks; collective.

        Args:
            sources: ranks whose first living one it is; the leader if there are none.
        """
        communicator, model = self._run.communicator, self._model
        changing = keras_hooks.changing_variables(model)
        variables = [*changing, *keras_hooks.metric_variables(model)]
        model_state.broadcast_all(communicator, variables, sources=sources)
        flat = keras_hooks.flat_logs(logs)
        values = np.array([float(value) for value in flat.values()], np.float64)
        communicator.broadcast(values, sources=sources)
        now = dict(zip(flat, values.tolist(), strict=True))
        return as_returned(FlatLogs(now, names_of(logs)))
