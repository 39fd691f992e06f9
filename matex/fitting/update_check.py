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

__all__ = ["UpdateCheck"]


class UpdateCheck(FitListener):
    """Compares the optimizer's own count with the number of steps of this fit. Local.

    Steps of another model, trained by a callback meanwhile, do not count.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._wanted = 0

    def begin(self) -> None:
        """Start from the optimizer's current count."""
        self._wanted = keras_hooks.updates_made(self._model.optimizer) or 0

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        self._wanted += 1

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Context whose updates do not count, which a callback makes between two steps."""
        before = keras_hooks.updates_made(self._model.optimizer) or 0
        yield
        self._wanted += (keras_hooks.updates_made(self._model.optimizer) or 0) - before

    def check(self) -> None:
        """Check that the numbers of updates and of steps since :meth:`begin` are equal.

        Raises:
            HooksError: they differ; on every rank.
        """
        made = keras_hooks.updates_made(self._model.optimizer)
        if made is not None and made != self._wanted:
            raise HooksError(
                f"{self._wanted} steps must make {self._wanted} updates. Received: {made} updates; "
                f"is this another Keras than {TESTED}?"
            )
