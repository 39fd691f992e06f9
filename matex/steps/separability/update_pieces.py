"""Contributions of some rows to a step with several updates, at once and in pieces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matex.exchange import Header, header_of
from matex.keras_hooks.loss_scale import lowered_loss_scales
from matex.partition.spans import Span
from matex.steps.control import Control
from matex.steps.separability.check_rows import CheckRows
from matex.steps.separability.comparison import Value, are_finite
from matex.steps.several_updates_step import SeveralUpdatesStep

__all__ = ["Parts", "Pieces", "contributions", "pieces_of"]

Parts = dict[int, list[np.ndarray]]
"""Parts of a contribution, by number of the exchange."""


class Pieces(NamedTuple):
    """Contributions of some rows at once and in pieces, with the variables after them."""

    rows: CheckRows
    whole: Parts
    after: list[np.ndarray]
    pieces: list[tuple[Parts, list[np.ndarray]]]

    @property
    def is_uneven(self) -> bool:
        """Whether some update is made for some rows and not for others."""
        return any(parts.keys() != self.whole.keys() for parts, _ in self.pieces)

    def sets_rates_by_rows(self, tolerance: float) -> bool:
        """Whether a learning rate at an update differs between some rows and others.

        Args:
            tolerance: largest relative difference by rounding.
        """
        return any(
            not np.allclose(_rate(parts[number]), _rate(self.whole[number]), tolerance, 0)
            for parts, _ in self.pieces
            for number in parts
        )

    @property
    def is_finite(self) -> bool:
        """Whether all contributions are finite."""
        every = (self.whole, *(parts for parts, _ in self.pieces))
        return are_finite(*(parts for made in every for parts in made.values()))

    def given(self, number: int) -> list[list[np.ndarray]]:
        """Contributions of the pieces to exchange *number*."""
        return [parts[number] for parts, _ in self.pieces]

    def sentence(self, step: SeveralUpdatesStep, value: Value) -> str:
        """Reason for which *step* cannot be shared: *value* differs."""
        return (
            f"{step.name} does not add up over rows: the {value.name} is {value.figures} "
            f"{self.rows}"
        )


def _rate(parts: list[np.ndarray]) -> float:
    """Learning rate in the header of a contribution to one exchange."""
    return float(header_of(parts[-1]).learning_rate)


def pieces_of(step: SeveralUpdatesStep, rows: CheckRows) -> Pieces:
    """All *rows* at once and in pieces, with loss scales at which all is finite."""
    quiet = step.quiet()

    def computed() -> Pieces:
        step.rollback.begin()
        try:
            whole, after = contributions(step, quiet, rows, (0, rows.count))
            pieces = [contributions(step, quiet, rows, part, whole) for part in rows.parts]
            return Pieces(rows, whole, after, pieces)
        finally:
            step.rollback.end()

    with lowered_loss_scales(step.updates.optimizers) as lower:
        made = computed()
        while not made.is_finite and lower():
            made = computed()
    return made


def contributions(
    step: SeveralUpdatesStep, quiet: Any, rows: CheckRows, part: Span, given: Parts | None = None
) -> tuple[Parts, list[np.ndarray]]:
    """Contributions of one *part* of *rows*, by exchange, and all variables after them.

    Args:
        quiet: result of :meth:`SeveralUpdatesStep.quiet`.
        given: sums that the exchanges return; the step's own contributions by default.
    """
    lo, hi = part
    count, header = float(rows.count), Header(learning_rate=1.0, rate_factor=1.0)
    divisors = step.denominators(rows.rows)
    control = Control((hi - lo) / count, float(lo), count, header, [part], divisors).array()
    cut = rows.cut(part)
    try:
        auxiliary, parts = step.exchanges.trial(lambda: np.asarray(quiet(cut, control)), given)
        return {**parts, len(step.exchanges.layouts): [auxiliary]}, step.rollback.values()
    finally:
        step.rollback.put_back()
