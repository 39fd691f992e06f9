"""A fit whose batches cannot be cut: every rank computes them whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import NotShareable
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.steps.engine import Training

__all__ = ["WholeBatches", "slower"]

Logs = dict[str, Any]


def slower(run: RunContext) -> str:
    """What it costs that every rank of *run* computes the same, in words for a line; pure."""
    threads, cores = run.threads
    if threads >= cores:
        return "exact but no faster"
    return (
        f"exact but slower than in one process: each has {threads} of the {cores} cores of its host"
    )


class WholeBatches:
    """Makes the steps of one fit in place of shared ones; told of on the terminal by its first.

    A step that does not work in plain Keras either so ends with its own error and nothing else.

    Args:
        reason: why batches cannot be cut.
        but: what else is different in this fit, for the same line.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        averaging: ReplicatedUpdate,
        reason: NotShareable,
        *,
        but: str = "",
    ) -> None:
        self._run = run
        self._model = model
        self._averaging = averaging
        self._line = f"every rank computes the whole batch, {slower(run)}; because {reason}{but}"
        self._told = run.communicator.initial_size == 1
        averaging.begin_fit()

    def step(self, make: Callable[[], Logs]) -> Logs:
        """The step that *make* makes; collective. Its logs, equal on all ranks."""
        logs = make()
        if not self._told:
            self._told = True
            self._run.say(self._line)
        return self._of_the_leader(logs) if self._averaging.differs else logs

    def of_training(
        self, training: Training, original: Callable[[Any], Logs]
    ) -> Callable[[Any, int], Logs]:
        """What :meth:`Training.run` calls for a batch, by Keras's own train function."""

        def whole(data: Any, rows: int) -> Logs:
            if training.samples_in_epoch is None:
                self._run.totals.samples_expected += rows
            self._averaging.samples = rows
            started = time.perf_counter()
            logs = self.step(lambda: original(iter([data])))
            if self._averaging.samples:  # one rank averages nothing, which counts steps elsewhere
                self._averaging.samples = 0
                taken = time.perf_counter() - started
                self._run.step_done(
                    StepReport(samples=rows, planned=rows, step_s=taken, exchange_s=0.0)
                )
            training.stop_agreed = self._averaging.stop_agreed
            return logs

        return whole

    def _of_the_leader(self, logs: Logs) -> Logs:
        """Metrics, statistics and logs of a step that the ranks made differently; collective."""
        communicator, model = self._run.communicator, self._model
        changing = keras_hooks.changing_variables(model)
        model_state.broadcast_all(communicator, [*changing, *model.metrics_variables])
        flat = keras_hooks.flat_logs(logs)
        values = np.array([float(value) for value in flat.values()], np.float64)
        communicator.broadcast(values)
        return dict(zip(flat, values.tolist(), strict=True))
