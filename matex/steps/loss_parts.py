"""Losses and metrics of a rank's rows as parts of those of the batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from matex import keras_hooks
from matex.steps.control import denominators_in

__all__ = ["LossParts"]


class LossParts:
    """Division of the losses of one model's step; its first trace determines it for later ones.

    A graph for a known number of rows does not tell a sum from a mean that divides by that number.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._row_sums: list[bool] = []
        self._unweighted: list[bool] = []

    @contextlib.contextmanager
    def traced(self, weight: Any, control: Any, rows: int | None) -> Iterator[list[Any]]:
        """Context of a trace of the step.

        Args:
            weight: scalar, local rows / rows of the step.
            control: control vector of the step.
            rows: number of local rows; None in a graph for any number.

        Yields:
            The denominators of the local rows, filled as the step runs; see
            :func:`matex.keras_hooks.shared_losses`.
        """
        divisors = denominators_in(control)
        with (
            keras_hooks.shared_losses(weight, divisors, self._row_sums) as local,
            keras_hooks.weighted_batch_metrics(self._model, lambda: weight, self._unweighted, rows),
        ):
            yield local
