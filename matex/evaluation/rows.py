"""Evaluation shared among the ranks: metric states are added up, not results averaged."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.data import Batches
from matex.data.prefetch import Prefetch
from matex.errors import TrainingError
from matex.evaluation.metric_states import MetricStates
from matex.evaluation.test_step import Sharing, TestStep
from matex.exchange import sums
from matex.partition.passes import Passes
from matex.partition.spans import Span, assigned, size

__all__ = ["RowEvaluation", "without_effect"]


def without_effect(model: Any, call: Callable[[], object]) -> None:
    """Evaluate by *call*, and put the metrics back; local.

    An eager test step is Python that may count or print, and creates metrics in its first call: it
    runs on every rank, even if this rank has no rows.
    """
    before = [(variable, variable.numpy()) for variable in model.metrics_variables]
    call()
    model.reset_metrics()
    for variable, value in before:
        variable.assign(value)


class RowEvaluation:
    """Iterator of ``evaluate`` in place of Keras's own, for rows by number.

    Each rank goes through its part alone; the last step adds the metric states of
    all, so every rank then holds the metrics of the whole set. The part of a rank
    that dies is evaluated by the others.

    Args:
        model: model with the ``test_step``.
        batches: the whole set.
        steps: largest number of batches.
        faults: may strike in phase ``validation``.
        say: function that prints a line for the user.
        sharing: way in which the other ranks divide rows, where this one joins them; found out
            by default.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        batches: Batches,
        *,
        batch_size: int,
        steps: int | None,
        faults: ft.Injector,
        watchdog: ft.Watchdog,
        say: Callable[[str], None],
        sharing: Sharing | None = None,
    ) -> None:
        self._communicator = communicator
        self._batches = batches
        self._reader = Prefetch(batches)
        self._batch_size = batch_size
        self._samples = batches.samples if not steps else min(batches.samples, steps * batch_size)
        self._faults = faults
        self._watchdog = watchdog
        self._model = model
        self._step = TestStep(
            model,
            batches.signature,
            keras_hooks.as_data,
            alone=communicator.initial_size == 1,
            say=say,
        )
        if sharing is not None:
            self._step.set_sharing(sharing)
        self.have: list[list[Span]] = [[]]
        self._chunks: list[Span] = []
        self._states = MetricStates(model, self._step)

    def retrace(self) -> None:
        """Trace again, because the model's shapes have changed; local."""
        self._step.renew()

    @property
    def passed(self) -> Passes:
        """State for a rank that joins."""
        return Passes(0, 0, -1 if self._step.sharing is None else int(self._step.sharing))

    @property
    def num_batches(self) -> int:
        """Number of batches of the whole set, as in a single process."""
        return -(-self._samples // self._batch_size)

    def reset(self) -> None:
        """Start a pass; Keras calls it before each."""

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Context of a pass; nothing here runs out early."""
        yield

    def __iter__(self) -> Iterator[tuple[int, int, RowEvaluation]]:
        self._faults.at("validation")
        if self._step.sharing is None:  # not before: callbacks have begun, and write summaries
            self._find_out()
        self._states.begin_batch()
        self.have = self.assigned_rows()
        self._chunks = self._chunked(self.have[0])
        # A progress bar reaches the end of the whole set with the rank's own last batch.
        own, steps_per_execution = max(1, len(self._chunks)), self._model.steps_per_execution
        last = max(1, -(-self.num_batches // steps_per_execution)) * steps_per_execution
        ends = [last * (step + 1) // own for step in range(own)]
        for before, end in itertools.pairwise([0, *ends]):
            yield before, end - 1, self

    def _find_out(self) -> None:
        """Determine which parts of the pass ranks may share; collective."""
        first = self._batches.rows(np.arange(min(self._batch_size, self._samples)))
        self._step.agree(first, self._communicator)

    def run(self, model: Any) -> dict[str, Any]:
        """Make the next step; collective if it is the last."""
        if self._chunks:
            self._evaluate(self._chunks.pop(0))
        elif model.run_eagerly:
            without_effect(model, lambda: self._evaluate((0, 1)))
        if not self._chunks:
            self._add_up()
        return self._step.logs

    def _chunked(self, spans: list[Span]) -> list[Span]:
        most = self._batch_size
        return [(i, min(i + most, hi)) for lo, hi in spans for i in range(lo, hi, most)]

    def _evaluate(self, span: Span) -> None:
        self._step(self._reader.rows(np.arange(*span), then=self._next_indices))
        if span[1] == self._samples:  # for values beside metrics Keras reports the last batch
            self._states.keep_extra()
        self._watchdog.progress()

    def _next_indices(self) -> np.ndarray:
        return np.arange(*self._chunks[0]) if self._chunks else np.arange(0)

    def _add_up(self) -> None:
        self._reader.close()
        if self._step.sharing == Sharing.WHOLE:
            return
        total = sums.over_rows(self._communicator, self)
        if round(total[-1]) != self._samples:
            raise TrainingError(
                f"{self._samples} samples were to be evaluated. Received: {total[-1]:.0f}"
            )
        self._states.assign(self._states.take_extra(total[:-1]))
        self._step.passed(self.num_batches)

    # As sums.RowWork: the whole set is one batch.

    def assigned_rows(self) -> list[list[Span]]:
        pending, world = self._communicator.pending, self._communicator.world
        if self._step.sharing == Sharing.WHOLE:
            return [[(0, self._samples)]]
        unit = self._batch_size if self._step.sharing == Sharing.BATCHES else 1
        units = -(-self._samples // unit)
        spans = assigned((0, units), pending.expected, pending.lost, world.rank)
        return [[(lo * unit, min(hi * unit, self._samples)) for lo, hi in spans]]

    def compute_rows(self, missing: list[list[Span]]) -> None:
        for span in self._chunked(missing[0]):
            self._evaluate(span)

    def forget_rows(self) -> None:
        self._states.reset()

    def packed_rows(self) -> np.ndarray:
        return np.append(self._states.packed(), float(size(self.have[0])))
