"""Check that a train step adds up: two parts of a few rows must give the sum for all rows.

A shared step is correct only if the loss is a mean over the rows of a batch, metrics count rows,
and all other changes are means over rows. The script's own ``train_step`` may be anything, so it
is checked before the first update, without random layers and batch statistics, which differ
between parts by nature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.errors import NotShareable
from matex.exchange import Layout
from matex.exchange.texts import allgather_texts
from matex.steps.separability.other_rows import (
    larger_rows,
    rows_of_one_length,
    shorter_rows,
    varied_rows,
)

__all__ = [
    "IF_NONZERO",
    "OTHER_ROWS",
    "Value",
    "agree_separable",
    "are_finite",
    "find_forgetting",
    "values_of",
]

IF_NONZERO = ", when variables that are 0 have other values"
"""End of a reason that shows only then."""

OTHER_ROWS = {
    ", in rows that differ more": varied_rows,
    ", in rows of larger values": larger_rows,
    ", in rows of other lengths": shorter_rows,
    ", in rows of two lengths": rows_of_one_length,
}
"""Functions that make rows for further trials, by the end of a reason that shows only there."""

_TEXT = 512  # bytes of a reason that the ranks exchange

_ROUNDING = 1e-6  # of float32, over some operations


def agree_separable(communicator: ft.Communicator, found: str, *, refuted: bool = False) -> None:
    """Raise unless no rank has *found* a part that does not add up; collective.

    Args:
        communicator: communicator of all ranks.
        found: text about what this rank found; "" if nothing.
        refuted: whether to raise even if no living rank has found one, because a dead one had;
            equal on all ranks, False by default.

    Raises:
        NotShareable: on every rank, with the text of the lowest rank that has one.
    """
    texts = allgather_texts(communicator, found, _TEXT)
    reason = next(filter(None, texts.values()), "")
    if reason or refuted:
        raise NotShareable(reason or "a rank that died had found that train_step does not add up")


def are_finite(*contributions: list[np.ndarray]) -> bool:
    """Whether all values of *contributions* are finite."""
    return all(np.isfinite(part).all() for parts in contributions for part in parts)


def find_forgetting(
    counted: list[Any],
    layout: Layout,
    from_zero: list[np.ndarray],
    go_on: Callable[[], list[np.ndarray]],
    tolerance: float,
) -> str:
    """Name the metric whose increment depends on its earlier counts; "" if none. Local.

    Increments are counted from zero on each rank, and summed over steps and ranks. A minimum or a
    decaying average cannot be computed from them.

    Args:
        counted: states of metrics, in the order of the layout's sums.
        layout: layout of the contributions.
        from_zero: contribution of some rows, counted from zero.
        go_on: function that recomputes it with metrics continued from their current values.
        tolerance: largest difference by rounding, relative to an increment.
    """
    held = [variable.numpy() for variable in counted]
    values = [value for value in values_of(layout, from_zero, [from_zero]) if value.counts]
    with _overflowing():
        starts = [
            before + value.whole.reshape(before.shape).astype(before.dtype)
            for before, value in zip(held, values, strict=False)
        ]
    try:
        for variable, start in zip(counted, starts, strict=True):
            variable.assign(start)
        again = go_on()
    finally:
        for variable, before in zip(counted, held, strict=True):
            variable.assign(before)
    values = [value for value in values_of(layout, from_zero, [again]) if value.counts]
    for variable, start, value in zip(counted, starts, values, strict=False):
        if not np.isfinite(value.whole).all() or np.isnan(start).any():
            continue  # the step itself will report it
        allowed = tolerance * value.scale + _ROUNDING * _norm(start) + 1e-12
        with _overflowing():
            gap = _norm(value.whole - value.added)
        if gap > allowed or not np.isfinite(value.added).all():  # it continued from infinity
            return (
                f"the metric of {variable.path} does not add up what it counts: for the same rows "
                "the increment is another after others"
            )
    return ""


class Value(NamedTuple):
    """One value of a contribution, for all rows and as the sum over parts."""

    name: str
    whole: np.ndarray
    added: np.ndarray
    scale: float
    floor: float
    counts: bool
    is_gradient: bool = False

    def differs(self, tolerance: float) -> bool:
        if not np.isfinite(self.scale):
            return False  # the step itself will report it
        return _norm(self.whole - self.added) > tolerance * self.scale + self.floor

    @property
    def figures(self) -> str:
        if self.whole.size == 1:
            return f"{self.whole.item():.6g} and {self.added.item():.6g}"
        with _overflowing():
            place = int(np.argmax(np.abs(self.whole - self.added)))
        return f"{self.whole.flat[place]:.6g} and {self.added.flat[place]:.6g} in one place"


def values_of(
    layout: Layout, whole: list[np.ndarray], parts: list[list[np.ndarray]]
) -> Iterator[Value]:
    """Values of a contribution, for all rows and as the sum over parts; pure.

    Args:
        layout: layout of the contributions.
        whole: parts of the contribution of all rows.
        parts: contributions of several pieces of the rows.
    """
    cuts = np.cumsum(layout.auxiliary_sizes)[:-1]
    segments = [*layout.gradients, *layout.means, *layout.sums]

    def flat(contribution: list[np.ndarray]) -> list[np.ndarray]:
        *gradients, auxiliary = contribution
        return [*gradients, *np.split(auxiliary, cuts)[:-1]]

    # Gradients that are zero up to rounding, such as an attention key bias's, differ by their whole
    # size: a difference that is negligible beside the largest gradient does not count.
    floor = _ROUNDING * max((_norm(part) for part in whole[:-1]), default=0.0)
    for segment, mine, *others in zip(segments, flat(whole), *map(flat, parts), strict=True):
        scale = sum(_norm(part) for part in (mine, *others))
        counts = segment in layout.sums
        is_gradient = segment in layout.gradients
        least = floor if is_gradient else 1e-12
        with _overflowing():
            added = sum(others).reshape(-1)
        yield Value(segment.name, mine.reshape(-1), added, scale, least, counts, is_gradient)


def _norm(values: np.ndarray) -> float:
    """Euclidean norm of *values*, which may be infinite."""
    with _overflowing():
        return float(np.linalg.norm(values))


def _overflowing() -> np.errstate:
    """Context of sums that may overflow without a warning, as a scaled loss does at times."""
    return np.errstate(invalid="ignore", over="ignore")
