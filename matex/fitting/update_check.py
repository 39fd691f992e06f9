"""Whether each step of a fit was one update of its optimizer, failures or not."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.errors import HooksError
from matex.keras_hooks.versions import TESTED
from matex.run.context import RunContext

__all__ = ["UpdateCheck"]


class UpdateCheck:
    """Compares the optimizer's own count with the number of the step. Local."""

    def __init__(self, run: RunContext, model: Any) -> None:
        self._run = run
        self._model = model
        self._updates_at_step_0 = 0

    def begin(self) -> None:
        """Start from the count that the optimizer has now."""
        made = keras_hooks.updates_made(self._model.optimizer) or 0
        self._updates_at_step_0 = made - self._run.step

    def check(self) -> None:
        """See that there were as many updates as steps since :meth:`begin`.

        Raises:
            HooksError: there were not; on every rank.
        """
        made = keras_hooks.updates_made(self._model.optimizer)
        wanted = self._run.step + self._updates_at_step_0
        if made is not None and made != wanted:
            raise HooksError(
                f"{wanted} steps must make {wanted} updates. Received: {made} updates; "
                f"is this another Keras than {TESTED}?"
            )
