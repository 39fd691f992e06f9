"""Check that each step of a fit was one update of its optimizer, with failures or without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from matex import keras_hooks
from matex.errors import HooksError
from matex.fitting.listeners import Cursor, FitListener
from matex.keras_hooks.versions import TESTED
from matex.records.step_report import StepReport
from matex.steps.engine import StepEngine

__all__ = ["UpdateCheck"]


class UpdateCheck(FitListener):
    """Compares the optimizer's own count with the number of steps of an epoch. Local.

    A callback may set the count between two steps: it reads a file of weights and optimizer, goes
    back to an earlier step, or trains the model itself. The count is read again after it.

    Args:
        engine: maker of the steps of the fit.
        callbacks: callbacks of the fit, as given.
    """

    def __init__(self, model: Any, engine: StepEngine, callbacks: Any) -> None:
        self._model = model
        self._engine = engine
        # Reading the count takes a few percent of a small step.
        self._reads_each_step = any(
            map(keras_hooks.sees_train_batches, keras_hooks.listed(callbacks))
        )
        self._wanted = self._seen = 0

    def _count(self) -> int:
        return keras_hooks.updates_made(self._model.optimizer) or 0

    def epoch_begins(self) -> None:
        """Start from the optimizer's current count."""
        self._wanted = self._seen = self._count()

    def step_begins(self) -> None:
        """Leave out changes of the count that callbacks have made since the last step."""
        if self._reads_each_step:
            self._wanted += self._count() - self._seen

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        self._wanted += 1
        if self._reads_each_step:
            self._seen = self._count()

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Context whose updates do not count."""
        before = self._count()
        yield
        self._wanted += self._count() - before

    def steps_ended(self) -> None:
        """Check that the numbers of updates and steps since :meth:`epoch_begins` are equal.

        Raises:
            HooksError: they differ; on every rank.
        """
        if not self._engine.makes_one_update:
            return
        made = keras_hooks.updates_made(self._model.optimizer)
        if made is not None and made != self._wanted:
            raise HooksError(
                f"{self._wanted} steps must make {self._wanted} updates. Received: {made} updates; "
                f"is this another Keras than {TESTED}?"
            )
