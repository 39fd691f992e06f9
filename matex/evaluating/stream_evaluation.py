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
from matex.evaluating.evaluation import make_test_step
from matex.feeds.stream import Cut, Stream
from matex.partition import Span, assigned, difference

__all__ = ["StreamEvaluation"]

_WINDOW = 16  # batches between two meetings
_MARK_BITS = 20  # squares of marks must add up exactly in float64


class StreamEvaluation:
    """What ``evaluate`` iterates over in place of Keras's own iterator.

    Args:
        stream: the same on every rank.
        faults: may strike in phase ``validation``.
        progress: called after each batch.

    Raises:
        NotShareable: parts do not add up to the whole.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        stream: Stream,
        *,
        faults: ft.Injector,
        progress: Callable[[], None],
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._stream = stream
        self._faults = faults
        self._progress = progress
        self.retrace()
        self._window: list[Cut] = []
        self._have: list[list[Span]] = []
        self._sums: list[np.ndarray] = []
        self._passes = 0

    @property
    def passed(self) -> tuple[int, int]:
        """How many passes were begun, and the mark of their data."""
        return self._passes, self._stream.mark

    def go_on_after(self, passes: int, mark: int) -> None:
        """Let the first pass come after *passes* that the other ranks made; local."""
        self._passes = passes
        self._stream.resume(passes, mark, alone=True)

    def retrace(self) -> None:
        """The model's shapes are new, or have changed; local."""
        stream = self._stream
        self._test_step = make_test_step(self._model, stream.signature, stream.as_data)

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
        logs: dict[str, Any] | None = None
        while (batch := self._stream.next()) is not None:
            if len(self._window) == _WINDOW:
                self._meet()
            self._window.append(batch)
            self._have.append(self._assigned(batch))
            self._evaluate(batch, self._have[-1])
            logs = self._model.get_metrics_result()
        if logs is None:
            raise StopIteration
        return logs

    def _assigned(self, batch: Cut) -> list[Span]:
        pending, world = self._communicator.pending, self._communicator.world
        return assigned(batch.span, pending.expected, pending.lost, world.rank)

    def _evaluate(self, batch: Cut, spans: list[Span]) -> None:
        if spans:
            self._test_step(batch.rows(spans))
        self._progress()

    def _meet(self) -> None:
        """Add up what the ranks found in the window's batches; collective.

        Afterwards all hold the same sums, and the metrics start from zero.
        """
        communicator, model = self._communicator, self._model
        samples = sum(batch.span[1] - batch.span[0] for batch in self._window)
        mark = self._stream.mark % (1 << _MARK_BITS)
        while True:
            mine = [v.numpy().astype(np.float64).reshape(-1) for v in model.metrics_variables]
            count = sum(hi - lo for spans in self._have for lo, hi in spans)
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
        parts = np.split(total[:-4], np.cumsum([part.size for part in mine])[:-1])
        before = self._sums or [np.zeros_like(part) for part in parts]
        self._sums = [a + b for a, b in zip(before, parts, strict=True)]
        model.reset_metrics()
        self._window, self._have = [], []

    def _take_over(self) -> None:
        """Evaluate what fell to this rank by a death."""
        wanted = [self._assigned(batch) for batch in self._window]
        missing = [difference(w, h) for w, h in zip(wanted, self._have, strict=True)]
        if any(spans is None for spans in missing):  # a second death moved the pieces: start over
            self._model.reset_metrics()
            missing = list(wanted)
        for batch, spans in zip(self._window, missing, strict=True):
            self._evaluate(batch, spans or [])
        self._have = wanted

    def _show(self) -> None:
        for variable, part in zip(self._model.metrics_variables, self._sums, strict=True):
            variable.assign(part.reshape(variable.shape).astype(variable.numpy().dtype))
