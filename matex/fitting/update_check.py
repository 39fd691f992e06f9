"""Whether each step of a fit was one update of its optimizer, failures or not."""

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
    """Compares the optimizer's own count with that of the steps of this fit. Local.

    Steps of another model, which a callback trains meanwhile, are not among them.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._wanted = 0

    def begin(self) -> None:
        """Start from the count that the optimizer has now."""
        self._wanted = keras_hooks.updates_made(self._model.optimizer) or 0

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        self._wanted += 1

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave out the updates of the context, which a callback makes between two steps."""
        before = keras_hooks.updates_made(self._model.optimizer) or 0
        yield
        self._wanted += (keras_hooks.updates_made(self._model.optimizer) or 0) - before

    def check(self) -> None:
        """See that there were as many updates as steps since :meth:`begin`.

        Raises:
            HooksError: there were not; on every rank.
        """
        made = keras_hooks.updates_made(self._model.optimizer)
        if made is not None and made != self._wanted:
            raise HooksError(
                f"{self._wanted} steps must make {self._wanted} updates. Received: {made} updates; "
                f"is this another Keras than {TESTED}?"
            )
