"""Common part of the executors of steps with one update: the checks before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ft
from matex.sources.interface import GlobalBatch
from matex.steps.separability.comparison import agree_separable
from matex.steps.separability.step_separability import find_inseparable, find_inseparable_now
from matex.steps.step import Step

__all__ = ["SeparabilityChecks"]


class SeparabilityChecks:
    """Checks of a step with one update, and its first run.

    Args:
        communicator: ranks of the run.
        step: step of the model.
        parts: number of parts into which batches are divided.
    """

    def __init__(self, communicator: ft.Communicator, step: Step, *, parts: int) -> None:
        self._communicator = communicator
        self._step = step
        self._parts = parts

    def prepare(self, sample: Callable[[], Any]) -> None:
        rows = sample()
        if rows is not None:
            self._step.warm_up(rows)

    def check_separable(self, batch: GlobalBatch) -> None:
        found = find_inseparable(self._step, batch, ranks=self._parts)
        agree_separable(self._communicator, found)

    def find_inseparable(self, rows: Any) -> str:
        return find_inseparable_now(self._step, rows)
