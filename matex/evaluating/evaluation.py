"""Evaluation shared among the ranks: metric states are added up, not results averaged."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

import ft
from matex import keras_hooks
from matex.data import Batches
from matex.data.prefetch import Prefetch
from matex.errors import NotShareable, TrainingError
from matex.partition import Span, assigned, difference

__all__ = ["SharedEvaluation", "make_test_step"]


def make_test_step(
    model: Any, signature: Any, as_data: Callable[[Any], Any] = keras_hooks.as_data
) -> Callable[[Any], dict[str, Any]]:
    """One ``test_step`` on a batch of *signature*: updates metrics, returns results. Local.

    Raises:
        NotShareable: results of parts of a batch do not add up to that of the whole.
    """

    def run(batch: Any) -> dict[str, Any]:
        with (
            keras_hooks.mean_losses_only(model),
            keras_hooks.batches_weighed(model, _refused),
        ):
            logs: dict[str, Any] = model.test_step(as_data(batch))
        if set(logs) != set(model.get_metrics_result()):
            raise NotShareable(f"test_step returns {', '.join(logs)}, which are not its metrics")
        return logs

    if model.run_eagerly:
        return run
    traced = tf.function(run, input_signature=(signature,), autograph=False)
    traced.get_concrete_function()
    return traced


def _refused() -> NoReturn:
    raise NotShareable("test_step counts batches, of which ranks would make others")


class SharedEvaluation:
    """What ``evaluate`` iterates over in place of Keras's own iterator.

    Each rank goes through its part alone; the last step adds the metric states of
    all, so every rank then holds the metrics of the whole set. The part of a rank
    that dies is evaluated by the others.

    Args:
        model: whose ``test_step`` it is.
        batches: the whole set.
        steps: how many batches of it at most.
        faults: may strike in phase ``validation``.

    Raises:
        NotShareable: parts do not add up to the whole.
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
    ) -> None:
        self._communicator = communicator
        self._batches = batches
        self._reader = Prefetch(batches)
        self._batch_size = batch_size
        self._samples = batches.samples if not steps else min(batches.samples, steps * batch_size)
        self._faults = faults
        self._watchdog = watchdog
        self._model = model
        self.retrace()
        self._spans: list[Span] = []
        self._chunks: list[Span] = []

    def retrace(self) -> None:
        """The model's shapes are new, or have changed; local."""
        self._test_step = make_test_step(self._model, self._batches.signature)

    @property
    def num_batches(self) -> int:
        """Of the whole set, as in one process."""
        return -(-self._samples // self._batch_size)

    def reset(self) -> None:
        """Keras calls it before each pass."""

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Around a pass; nothing here runs out early."""
        yield

    def __iter__(self) -> Iterator[tuple[int, int, SharedEvaluation]]:
        self._faults.at("validation")
        self._spans = self._assigned()
        self._chunks = self._chunked(self._spans)
        # A progress bar is to come to the end of the whole set with the rank's own last batch.
        own, at_once = max(1, len(self._chunks)), self._model.steps_per_execution
        last = max(1, -(-self.num_batches // at_once)) * at_once
        ends = [last * (step + 1) // own for step in range(own)]
        for before, end in itertools.pairwise([0, *ends]):
            yield before, end - 1, self

    def run(self, model: Any) -> dict[str, Any]:
        """The next step; collective where it is the last."""
        if self._chunks:
            self._evaluate(self._chunks.pop(0))
        if not self._chunks:
            self._add_up(model)
        logs: dict[str, Any] = model.get_metrics_result()
        return logs

    def _assigned(self) -> list[Span]:
        pending, world = self._communicator.pending, self._communicator.world
        return assigned((0, self._samples), pending.expected, pending.lost, world.rank)

    def _chunked(self, spans: list[Span]) -> list[Span]:
        size = self._batch_size
        return [(i, min(i + size, hi)) for lo, hi in spans for i in range(lo, hi, size)]

    def _evaluate(self, span: Span) -> None:
        self._test_step(self._reader.rows(np.arange(*span), then=self._next_indices))
        self._watchdog.progress()

    def _next_indices(self) -> np.ndarray:
        return np.arange(*self._chunks[0]) if self._chunks else np.arange(0)

    def _add_up(self, model: Any) -> None:
        self._reader.close()
        communicator = self._communicator
        while True:
            mine = [v.numpy().astype(np.float64).reshape(-1) for v in model.metrics_variables]
            count = sum(hi - lo for lo, hi in self._spans)
            send = np.concatenate([*mine, [float(count)]])
            total = np.empty_like(send)
            try:
                communicator.allreduce(send, total)
                break
            except ft.PeerFailure:
                if communicator.recover().finished:
                    break
                self._take_over(model)
        if round(total[-1]) != self._samples:
            raise TrainingError(
                f"{self._samples} samples were to be evaluated. Received: {total[-1]:.0f}"
            )
        parts = np.split(total[:-1], np.cumsum([part.size for part in mine])[:-1])
        for variable, part in zip(model.metrics_variables, parts, strict=True):
            variable.assign(part.reshape(variable.shape).astype(variable.numpy().dtype))

    def _take_over(self, model: Any) -> None:
        """Evaluate what fell to this rank by a death."""
        wanted = self._assigned()
        missing = difference(wanted, self._spans)
        if missing is None:  # a second death moved the pieces: start over
            model.reset_metrics()
            missing = wanted
        for span in self._chunked(missing):
            self._evaluate(span)
        self._spans = wanted
