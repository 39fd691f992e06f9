"""Iterator of Keras's fit, in place of Keras's own: epochs of shared steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from matex.errors import NotShareable
from matex.fitting.epoch_parts import (
    FitStart,
    Logs,
    RateSchedule,
    TrainFunction,
    WholeBatch,
    WholeBatchSteps,
)
from matex.fitting.listeners import Cursor, FitListener
from matex.keras_hooks.metrics import as_returned
from matex.keras_hooks.rows import is_free
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch, Source
from matex.steps.declined import StepDeclined
from matex.steps.engine import StepEngine

__all__ = ["EpochIterator"]


class EpochIterator:
    """Keras's iterator over epochs, with its cursor.

    Args:
        engine: maker of the steps.
        model: model being trained.
        source: source of the global batches; every rank has all of it.
        start: position at which training starts.
        rate: schedule of the learning rate.
        whole: maker of the steps if batches turn out not to be divisible.
        listeners: listeners to each step and each epoch, in this order.
    """

    def __init__(
        self,
        engine: StepEngine,
        model: Any,
        source: Source,
        *,
        start: FitStart,
        rate: RateSchedule,
        whole: WholeBatchSteps,
        listeners: Sequence[FitListener],
    ) -> None:
        self.engine = engine
        self.source = source
        self._model = model
        self._rate = rate
        self._whole = whole
        self._has_ended = False
        self._listeners = listeners
        self._next = start
        self._epoch, self._samples = start.epoch, start.samples
        self._step_digest = 0
        self._fetched: Interval | None = None
        self._is_shared = True
        self._is_resumed = False
        self._made: Logs | None = None
        self._left_over: GlobalBatch | None = None  # a batch that could not be declined
        self.stop_agreed = False
        self._stops = start.stops
        self.repeats_batch = False
        """Whether callbacks see a batch again, for its logs, which an earlier run has made."""

    # Where it stands.

    @property
    def cursor(self) -> Cursor:
        """Position after the last step."""
        return Cursor(self._epoch, self._samples, self.source.digest, self.source.samples)

    @property
    def step_cursor(self) -> Cursor:
        """Position before the running step: earlier samples are done, and none of the step's."""
        lo, _ = self.engine.running_span
        return Cursor(self._epoch, lo, self._step_digest, self.source.samples)

    @property
    def epoch_is_complete(self) -> bool:
        """Whether no step of the running epoch was skipped by a stop."""
        samples = self.source.samples
        return self._samples == samples or (samples is None and not self.stop_agreed)

    @property
    def stop_wanted(self) -> bool:
        """Whether this rank wants training to stop; other ranks learn of it in the next step."""
        return self.engine.stop_wanted

    @stop_wanted.setter
    def stop_wanted(self, wanted: bool) -> None:
        self.engine.stop_wanted = wanted

    def begin_at(self, epoch: int, samples: int | None = None) -> None:
        """Begin at *samples* of *epoch*, those given at the start by default. Before all epochs."""
        done = self._next.samples if samples is None else samples
        self._next = self._next._replace(epoch=epoch, samples=done)

    # Methods that Keras's fit calls.

    @property
    def num_batches(self) -> int | None:
        """Number of steps of an epoch; None if unknown."""
        return self.source.num_batches

    def reset(self) -> None:
        """Reset the source; Keras calls it before the first epoch."""
        self.source.reset()

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Context of an epoch, after which all replicas are the one model; collective."""
        with self.source.catch_stop_iteration():
            yield
        if self._is_shared:
            self.engine.consensus()
            for listener in self._listeners:
                listener.steps_ended()

    def __iter__(self) -> Iterator[tuple[int, int, EpochIterator]]:
        epoch, samples = self._epoch, self._samples = self._next.epoch, self._next.samples
        self._next = self._next._replace(epoch=epoch + 1, samples=0)
        self._is_resumed = samples > 0
        self._has_ended = False
        for listener in self._listeners:
            listener.epoch_begins()
        self.engine.begin_epoch(epoch)
        if samples and (self._stops or samples == self.source.samples):
            self.repeats_batch = True  # only the epoch's end remains
            self.stop_agreed, self._stops = self._stops, False
            last = (self.num_batches or 1) - 1
            yield last, last, self
            return
        for first, last in self.source.epoch(epoch, samples, self._model.steps_per_execution):
            if self._is_shared and self.stop_wanted and self._all_want_stop():
                return
            yield first, last, self

    def _all_want_stop(self) -> bool:
        """Whether every rank wants to stop before the next step, as Keras would; collective.

        It is determined in the exchange of that step, which other ranks may already make. If some
        rank does not want to stop, the step is made, and :meth:`run` finds it done.
        """
        batch = self._next_batch()
        if batch is None:
            return False
        try:
            self._made = self._shared_step(batch, decline=True)
        except StepDeclined:
            stops = True
        except NotShareable as reason:
            stops = self._cannot_share(reason)
            self._left_over = batch
        else:
            return False
        if stops:
            self.stop_agreed = self._model.stop_training = True
        return stops

    def close(self) -> None:
        """Stop reading ahead, after the last step. Local."""
        self.source.close()

    # Steps.

    def run(self, original: TrainFunction) -> Logs:
        """Make the next ``steps_per_execution`` steps; return the last one's logs; collective.

        After a checkpoint at the last step that an epoch makes, the logs are that step's.

        Args:
            original: Keras's train function, for batches that cannot be divided.

        Raises:
            StopIteration: the data ended before the first of the steps.
        """
        logs, self._made = self._made, None
        left = 0 if self.repeats_batch else self._model.steps_per_execution - (logs is not None)
        for _ in range(left):
            if logs is not None and self.stop_agreed:
                break
            batch = self._next_batch()
            if batch is None:
                break
            logs = self._step(batch, original)
        resumed, self._is_resumed = self._is_resumed, False
        if logs is not None:
            return logs
        if resumed:
            return dict(self._model.get_metrics_result())
        raise StopIteration

    def _next_batch(self) -> GlobalBatch | None:
        batch, self._left_over = self._left_over, None
        if batch is not None:
            return batch
        if self.source.ran_out and not self._has_ended:
            self._has_ended = True
            for listener in self._listeners:
                listener.data_ended()
        self._step_digest = self.source.digest
        began = time.perf_counter()
        batch = self.source.next()
        self._fetched = Interval(began, time.perf_counter())
        return batch

    def _step(self, batch: GlobalBatch, original: TrainFunction) -> Logs:
        if self._is_shared:
            try:
                return self._shared_step(batch)
            except NotShareable as reason:
                self._cannot_share(reason)
        return self._whole_step(batch, original)

    def _cannot_share(self, reason: NotShareable) -> bool:
        """Continue with whole batches; return whether all ranks want to stop first. Collective."""
        self._is_shared = False
        self._whole.cannot_share(reason)
        return self._whole.all_want_stop(self.stop_wanted)

    def _shared_step(self, batch: GlobalBatch, *, decline: bool = False) -> Logs:
        factor, samples = 1.0, self.source.samples
        if samples is not None:
            factor = self._rate.rate_factor(self._epoch + batch.span[0] / samples)
        for listener in self._listeners:
            listener.step_begins()
        report = self.engine.run(batch, rate_factor=factor, decline=decline, fetched=self._fetched)
        self.stop_agreed = report.agreed.stop
        self._samples = batch.span[1]
        cursor = self.cursor
        for listener in self._listeners:
            listener.step_done(report, cursor)
        return as_returned(report.logs)

    def _whole_step(self, batch: GlobalBatch, original: TrainFunction) -> Logs:
        lo, hi = batch.span
        source = self.source
        whole = WholeBatch(
            batch.rows([batch.span]),
            source.as_data,
            source.signature if is_free(source.built_on) else None,
            hi - lo, is_of_stream=source.samples is None,
        )  # fmt: skip
        logs = self._whole.step(original, whole)
        self.source.after_step(self.engine.step_number)
        self._samples = hi
        return logs
