"""Evaluation on a stream: each rank takes its rows of each batch, and the states are added up.

The ranks meet every few batches. Those batches are kept until then, so that the
share of a rank that dies can be evaluated by the others, in the same pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ft
from matex.errors import TrainingError
from matex.evaluating.evaluation import without_effect
from matex.evaluating.test_step import Sharing, TestStep
from matex.feeds.stream import Cut, Stream
from matex.partition import Span, assigned, difference

__all__ = ["StreamEvaluation"]

_WINDOW = 16  # batches between two meetings, or one for each rank
_MARK_BITS = 20  # squares of marks must add up exactly in float64


class StreamEvaluation:
    """What ``evaluate`` iterates over in place of Keras's own iterator.

    Args:
        stream: the same on every rank.
        faults: may strike in phase ``validation``.
        progress: called after each batch.
        say: one line for the user.
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
        self._say = say
        self._step = TestStep(
            model, stream.signature, stream.as_data, alone=communicator.initial_size == 1
        )
        self._logs: dict[str, Any] = {}
        self._extra: np.ndarray | None = None
        self._window: list[Cut] = []
        self._have: list[list[Span]] = []
        self._sums: list[np.ndarray] = []
        self._passes = 0

    @property
    def passed(self) -> tuple[int, int, int]:
        """How many passes were begun, the mark of their data, what is shared (-1: not known)."""
        sharing = self._step.sharing
        return self._passes, self._stream.mark, -1 if sharing is None else int(sharing)

    def go_on_after(self, passes: int, mark: int, sharing: int) -> None:
        """Let the first pass come after *passes* that the other ranks made; local."""
        self._passes = passes
        self._stream.resume(passes, mark, alone=True)
        if sharing >= 0:
            self._step.settle(Sharing(sharing))

    def retrace(self) -> None:
        """The model's shapes have changed; local."""
        self._step.renew()

    @property
    def num_batches(self) -> int | None:
        """Of a pass, where known."""
        return self._stream.num_batches

    def reset(self) -> None:
        """Keras calls it before each pass."""
        self._stream.reset()

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Around a pass; collective at its end, where the metrics become those of all."""
        with self._stream.catch_stop_iteration():
            yield
        if self._window or self._sums:
            self._meet()
            self._show()

    def __iter__(self) -> Iterator[tuple[int, int, StreamEvaluation]]:
        self._faults.at("validation")
        self._passes += 1
        self._window, self._sums = [], []
        for first, last in self._stream.epoch(0, 0, self._model.steps_per_execution):
            yield first, last, self

    def run(self) -> dict[str, Any]:
        """The next ``steps_per_execution`` batches; collective now and then.

        Raises:
            StopIteration: there was none.
        """
        some = False
        while (batch := self._stream.next()) is not None:
            some = True
            if self._step.sharing is None:
                self._find_out(batch)
            if len(self._window) >= max(_WINDOW, self._communicator.world.size):
                self._meet()
            self._window.append(batch)
            self._extra = None
            self._have.append(self._assigned(len(self._window) - 1))
            if self._model.run_eagerly and not self._have[-1]:
                self._evaluate_in_vain(batch)
            self._evaluate(batch, self._have[-1])
        if not some:
            raise StopIteration
        # Keras keeps what it gets here until the pass is over: then it becomes that of all ranks.
        self._logs = self._step.logs
        return self._logs

    def _find_out(self, batch: Cut) -> None:
        """What the ranks may share; collective."""
        if reason := self._step.agree(batch.rows([batch.span]), self._communicator):
            self._say(f"every rank evaluates all of the data: {reason}")

    def _assigned(self, place: int) -> list[Span]:
        """What falls to this rank of the window's batch at *place*."""
        pending, world = self._communicator.pending, self._communicator.world
        span = self._window[place].span
        if self._step.sharing == Sharing.WHOLE:
            return [span]
        if self._step.sharing == Sharing.ROWS:
            return assigned(span, pending.expected, pending.lost, world.rank)
        owner = pending.expected[place % len(pending.expected)]
        alive = [rank for rank in pending.expected if rank not in pending.lost]
        if owner in pending.lost:
            owner = alive[place % len(alive)]
        return [span] if owner == world.rank else []

    def _evaluate(self, batch: Cut, spans: list[Span]) -> None:
        if spans:
            self._step(batch.rows(spans))
        if spans and batch is self._window[-1]:  # of what is no metric, Keras reports the last's
            self._extra = self._step.extra
        self._progress()

    def _evaluate_in_vain(self, batch: Cut) -> None:
        lo, hi = batch.span
        row = batch.rows([(lo, min(lo + 1, hi))])
        without_effect(self._model, lambda: self._step(row))

    def _meet(self) -> None:
        """Add up what the ranks found in the window's batches; collective.

        Afterwards all hold the same sums, and the metrics start from zero.
        """
        communicator, model = self._communicator, self._model
        samples = sum(batch.span[1] - batch.span[0] for batch in self._window)
        mark = self._stream.mark % (1 << _MARK_BITS)
        whole = self._step.sharing == Sharing.WHOLE  # nothing is added up, but data are compared
        self._step.ready()
        while True:
            count = sum(hi - lo for spans in self._have for lo, hi in spans)
            mine = [v.numpy().astype(np.float64).reshape(-1) for v in model.metrics_variables]
            mine.append(np.zeros_like(self._step.extra) if self._extra is None else self._extra)
            if whole:
                mine, count, samples = [np.empty(0)], 0, 0
            send = np.concatenate([*mine, [count, mark, mark * mark, 1.0]])
            total = np.empty_like(send)
            try:
                communicator.allreduce(send, total)
                break
            except ft.PeerFailure:
                if communicator.recover().finished:
                    break
                self._take_over()
        # Equal for every rank exactly when all marks are equal; so all raise alike.
        if total[-1] * total[-2] != total[-3] ** 2 or total[-4] != samples:
            raise TrainingError(f"evaluation: {self._stream.explanation}")
        self._window, self._have = [], []
        if whole:
            return
        *parts, extra = np.split(total[:-4], np.cumsum([part.size for part in mine])[:-1])
        self._step.extra = extra
        before = self._sums or [np.zeros_like(part) for part in parts]
        self._sums = [a + b for a, b in zip(before, parts, strict=True)]
        model.reset_metrics()

    def _take_over(self) -> None:
        """Evaluate what fell to this rank by a death."""
        wanted = [self._assigned(place) for place in range(len(self._window))]
        missing = [difference(w, h) for w, h in zip(wanted, self._have, strict=True)]
        if any(spans is None for spans in missing):  # a second death moved the pieces: start over
            self._model.reset_metrics()
            self._extra = None
            missing = list(wanted)
        for batch, spans in zip(self._window, missing, strict=True):
            self._evaluate(batch, spans or [])
        self._have = wanted

    def _show(self) -> None:
        if self._step.sharing == Sharing.WHOLE:
            return
        for variable, part in zip(self._model.metrics_variables, self._sums, strict=True):
            variable.assign(part.reshape(variable.shape).astype(variable.numpy().dtype))
        self._logs.update(self._step.logs)
