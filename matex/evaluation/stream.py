"""Evaluation on a stream: each rank takes its rows of each batch, and states are summed.

The ranks meet every few batches. Those batches are kept until then, so that the
share of a rank that dies can be evaluated by the others, in the same pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ft
from matex.errors import DataError, TrainingError
from matex.evaluation.metric_states import MetricStates
from matex.evaluation.rows import without_effect
from matex.evaluation.test_step import Sharing, TestStep
from matex.exchange import sums
from matex.keras_hooks.rows import is_free
from matex.partition.passes import Passes
from matex.partition.spans import Span, assigned, size
from matex.sources.stream import Stream
from matex.sources.stream_batch import StreamBatch
from matex.steps.end_of_data import EndOfData

__all__ = ["StreamEvaluation"]

_WINDOW = 16  # batches between two meetings, or one for each rank
_DIGEST_BITS = 20  # squares of digests must add up exactly in float64


class StreamEvaluation:
    """Iterator of ``evaluate`` in place of Keras's own, for a stream of batches.

    Args:
        stream: the same on every rank.
        faults: may strike in phase ``validation``.
        progress: function called after each batch.
        say: function that prints a line for the user.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        stream: Stream,
        *,
        faults: ft.Injector,
        progress: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._stream = stream
        self._faults = faults
        self._progress = progress
        alone = communicator.initial_size == 1
        self._step = TestStep(model, stream.signature, stream.as_data, alone=alone, say=say)
        self._logs: dict[str, Any] = {}
        self._states = MetricStates(model, self._step)
        self._window: list[StreamBatch] = []
        self.have: list[list[Span]] = []
        self._sum: np.ndarray | None = None
        self._batches = 0
        self._passes = 0
        self._before = Passes()  # passes that the next one goes on after
        self._end = EndOfData(model, stream, model.test_step, self._step.as_noted)
        self._has_ended = False

    @property
    def passed(self) -> Passes:
        """Passes so far."""
        sharing = self._step.sharing
        known = -1 if sharing is None else int(sharing)
        return Passes(self._passes, self._stream.digest, known)

    def go_on_after(self, passes: Passes) -> None:
        """Continue after *passes* that other ranks, or a run before, have made; local."""
        self._before, self._passes = passes, passes.number
        if passes.sharing >= 0:
            self._step.set_sharing(Sharing(passes.sharing))

    def retrace(self) -> None:
        """Trace again, because the model's shapes have changed; local."""
        self._step.renew()
        self._end.drop_trace()

    @property
    def num_batches(self) -> int | None:
        """Number of batches of a pass; None if unknown."""
        return self._stream.num_batches

    def reset(self) -> None:
        """Start a pass; Keras calls it before each."""
        self._stream.reset()

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Context of a pass; collective at its end, where metrics are summed over ranks."""
        with self._stream.catch_stop_iteration():
            yield
        if self._window or self._sum is not None:
            self._meet()
            self._show()
            self._step.passed(self._batches)
        if self._has_ended and not self._counts_rows_alone:
            self._end.passed()
            self._logs.update({} if self._is_whole else self._step.logs)

    def __iter__(self) -> Iterator[tuple[int, int, StreamEvaluation]]:
        self._faults.at("validation")
        self._skip()
        self._passes += 1
        self._window, self._sum, self._has_ended = [], None, False
        self._batches = 0
        for first, last in self._stream.epoch(0, 0, self._model.steps_per_execution):
            yield first, last, self

    def _skip(self) -> None:
        """Read the passes that this evaluation goes on after, as Keras goes over them.

        Raises:
            DataError: their batches are not those of the other ranks.
        """
        before, self._before = self._before, Passes()
        stream = self._stream
        for _ in range(before.number):
            with stream.catch_stop_iteration():
                for _ in stream.epoch(0, 0, self._model.steps_per_execution):
                    if stream.next() is None:
                        raise StopIteration
                    while stream.next() is not None:
                        pass
            stream.reset()
        if before.are_of_others and before.digest != stream.digest:
            raise DataError(f"evaluation: {stream.explanation}")

    def run(self) -> dict[str, Any]:
        """Evaluate the next ``steps_per_execution`` batches; sometimes collective.

        Raises:
            StopIteration: there is no further batch.
        """
        some = False
        while (batch := self._stream.next()) is not None:
            some = True
            if self._step.sharing is None:
                self._find_out(batch)
            if len(self._window) >= max(_WINDOW, self._communicator.world.size):
                self._meet()
            self._window.append(batch)
            self._batches += 1
            self._states.begin_batch()
            self.have.append(self._assigned(len(self._window) - 1))
            if self._model.run_eagerly and not self.have[-1]:
                self._evaluate_in_vain(batch)
            self._evaluate(batch, self.have[-1])
        if not some:
            self._has_ended = True
            raise StopIteration
        # Keras keeps this result until the end of the pass: then it becomes that of all ranks.
        self._logs = self._step.logs
        return self._logs

    def _find_out(self, batch: StreamBatch) -> None:
        """Determine which parts of the pass ranks may share; collective."""
        self._step.agree(batch.rows([batch.span]), self._communicator)

    def _assigned(self, place: int) -> list[Span]:
        """Spans of the window's batch at *place* that fall to this rank."""
        pending, world = self._communicator.pending, self._communicator.world
        batch = self._window[place]
        span = batch.span
        if self._step.sharing == Sharing.WHOLE:
            return [span]
        if self._step.sharing == Sharing.ROWS and not batch.uneven:
            return assigned(span, pending.expected, pending.lost, world.rank)
        owner = pending.expected[place % len(pending.expected)]
        alive = [rank for rank in pending.expected if rank not in pending.lost]
        if owner in pending.lost:
            owner = alive[place % len(alive)]
        return [span] if owner == world.rank else []

    def _evaluate(self, batch: StreamBatch, spans: list[Span]) -> None:
        if spans:
            self._step(batch.rows(spans))
        if spans and batch is self._window[-1]:  # for the rest Keras reports the last batch
            self._states.keep_extra()
        self._progress()

    def _evaluate_in_vain(self, batch: StreamBatch) -> None:
        lo, hi = batch.span
        row = batch.rows([batch.span if batch.uneven else (lo, min(lo + 1, hi))])
        without_effect(self._model, lambda: self._step(row))

    def _meet(self) -> None:
        """Sum the ranks' results of the window's batches; collective.

        Afterwards all hold the same sums, and the metrics start from zero.
        """
        samples = sum(size([batch.span]) for batch in self._window)
        total = sums.over_rows(self._communicator, self)
        count, square, digest, ranks = total[-4:]
        # Equal for every rank exactly when all digests are equal; so all raise alike.
        if ranks * square != digest**2 or count != (0 if self._is_whole else samples):
            raise TrainingError(f"evaluation: {self._stream.explanation}")
        self._window, self.have = [], []
        if self._is_whole:
            return
        states = self._states.take_extra(total[:-4])
        self._sum = states if self._sum is None else self._sum + states
        self._model.reset_metrics()

    @property
    def _is_whole(self) -> bool:
        """Whether each rank evaluates all: nothing is summed, but data are compared."""
        return self._step.sharing == Sharing.WHOLE

    # As sums.RowWork, on the batches of the window.

    def assigned_rows(self) -> list[list[Span]]:
        return [self._assigned(place) for place in range(len(self._window))]

    def compute_rows(self, missing: list[list[Span]]) -> None:
        for batch, spans in zip(self._window, missing, strict=True):
            self._evaluate(batch, spans)

    def forget_rows(self) -> None:
        self._states.reset()

    def packed_rows(self) -> np.ndarray:
        digest = self._stream.digest % (1 << _DIGEST_BITS)
        count = sum(size(spans) for spans in self.have)
        states = self._states.packed()
        if self._is_whole:
            count, states = 0, np.empty(0)
        return np.concatenate([states, [count, digest * digest, digest, 1.0]])

    @property
    def _counts_rows_alone(self) -> bool:
        """Whether a step without a batch changes nothing, as no metric counts batches.

        Losses of several outputs do, where batches are of unknown size, and seeds move on.
        """
        by_rows = self._step.sharing == Sharing.ROWS and not self._step.draws
        return by_rows and is_free(self._stream.built_on)

    def _show(self) -> None:
        if self._is_whole:
            return
        if self._sum is not None:
            self._states.assign(self._sum)
        self._logs.update(self._step.logs)
