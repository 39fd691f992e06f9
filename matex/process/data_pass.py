"""Data of a fit that is passed over: read as that fit read them, for later fits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.keras_hooks.data import reading_alone
from matex.sources.select import rows_of
from matex.sources.stream import flat_signature, leaves_of, specification
from matex.steps.building import build

__all__ = ["DataPass"]


class DataPass:
    """Reads generators, PyDatasets and pipelines as Keras does, without training. Local.

    Such data may count their passes: a pipeline that reshuffles each time, a PyDataset with a
    method for an epoch's end, a generator. Arrays are not read. If only the data determine a
    model's shapes, it is built from them, too.

    Args:
        say: function that prints a line for the user.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._steps = 0

    def make(
        self, original: Callable[..., Any], model: Any, arguments: dict[str, Any], epochs: int
    ) -> None:
        """Read the data of a fit of *model* for *epochs* epochs, by Keras's own fit.

        Args:
            original: Keras's ``fit``.
            arguments: arguments of the fit, by name.
        """
        if not epochs or rows_of(**{**arguments, "steps_per_epoch": None}) is not None:
            return
        self._say("going through the data of a complete fit, for later ones to go on from there")
        quiet = {"callbacks": None, "verbose": 0, "validation_data": None}
        end = {"epochs": arguments["initial_epoch"] + epochs}
        self._steps = model.steps_per_execution
        try:
            with reading_alone(model):
                original(model, **{**arguments, **quiet, **end})
        finally:
            self._steps = 0
            keras_hooks.start_at(model, None)

    def reading_or(self, model: Any, train: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A train function of *model* like *train* that reads alone while data are read."""

        def train_or_read(iterator: Any) -> Any:
            if not self._steps:
                return train(iterator)
            if not model.built:
                _build(model, iterator)
            for _ in range(self._steps):
                next(iterator)
            return {}

        return train_or_read


def _build(model: Any, iterator: Any) -> None:
    """Build *model* as its first step would have done, if its data allow it."""
    with contextlib.suppress(NotShareable):
        known = specification(iterator)
        build(model, leaves_of(known, flat_signature(known)))
