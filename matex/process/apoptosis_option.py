"""The callback of ``--apoptosis``, which the command line asks for in place of the script."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.config import Config

__all__ = ["ApoptosisOption"]


class ApoptosisOption:
    """Adds that callback to a fit, the same to each fit of a model. Local.

    Args:
        config: options of the run.
    """

    def __init__(self, config: Config) -> None:
        self._mode = config.apoptosis
        self._by_model: dict[int, Any] = {}

    def added(self, model: Any, callbacks: Any) -> Any:
        """*callbacks* of a fit of *model*, with apoptosis added if the option asks for it."""
        if not self._mode:
            return callbacks
        from matex.apoptosis.callback import Apoptosis

        known = keras_hooks.listed(callbacks)
        if any(isinstance(callback, Apoptosis) for callback in known):
            return callbacks
        own = self._by_model.setdefault(id(model), Apoptosis(self._mode))
        return [*known, own]
