"""Rows that a separability check computes at once and in parts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.partition.spans import Span
from matex.sources.interface import GlobalBatch

__all__ = ["FIRST", "CheckRows", "telling_rows"]

FIRST = 3
"""Number of rows of the first of two parts."""

_ROWS, _LOOKED_AT = 8, 64
_PARTS = 8  # of rows that are repeated


@dataclass(frozen=True)
class CheckRows:
    """The rows of a separability check, and the parts that it computes them in.

    Args:
        rows: structure of eager tensors with the same number of rows each.
        parts: disjoint intervals that are all of them; by default three rows and the rest.
    """

    rows: Any
    parts: tuple[Span, ...] = ()
    count: int = field(init=False)

    def __post_init__(self) -> None:
        count = keras_hooks.row_count(keras_hooks.flatten(self.rows)[0])
        cut = min(FIRST, count - 1)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "parts", self.parts or ((0, cut), (cut, count)))

    def __str__(self) -> str:
        sizes = [str(hi - lo) for lo, hi in self.parts]
        many = len(sizes) > 2 and len({*sizes}) == 1
        parts = f"{len(sizes)} times {sizes[0]}" if many else " and ".join(sizes)
        return f"for {self.count} rows at once and for {parts} of them added up"

    @property
    def shares(self) -> list[float]:
        """The number of rows of each part in relation to all."""
        return [(hi - lo) / self.count for lo, hi in self.parts]

    def cut(self, part: Span) -> Any:
        """The rows of the interval *part*."""
        return keras_hooks.map_structure(lambda x: keras_hooks.cut_rows(x, *part), self.rows)

    def repeated(self, limit: int) -> CheckRows | None:
        """Each row as often as gives at most *limit* rows, in up to eight parts; None if once.

        Args:
            limit: number of rows.
        """
        times = limit // self.count
        if times < 2:
            return None
        places = [place for place in range(self.count) for _ in range(times)]
        ends = np.linspace(0, len(places), min(_PARTS, self.count) + 1).astype(int).tolist()
        rows = keras_hooks.map_structure(lambda x: keras_hooks.chosen_rows(x, places), self.rows)
        return CheckRows(rows, tuple(itertools.pairwise(ends)))


def telling_rows(batch: GlobalBatch) -> CheckRows:
    """Eight rows of *batch*, of which the first three have more zeros than the others.

    Masks and counts consist of zeros, and a loss divided by them adds up if all rows have equally
    many. The row with the most zeros and the one with the fewest are in both parts, because a
    function of the rows of one class adds up if no class is in both. From a smaller batch as many
    rows as it has are taken, at least two.
    """
    lo, hi = batch.span
    rows = batch.rows([(lo, min(hi, lo + _LOOKED_AT))])
    zeros = sum(map(keras_hooks.zeros_by_row, keras_hooks.flatten(rows)))
    order = np.argsort(-np.asarray(zeros), kind="stable").tolist()
    count = min(len(order), _ROWS)
    if count > FIRST:
        first, last = [*order[: FIRST - 1], order[-1]], order[len(order) - (count - FIRST - 1) :]
        chosen = [*first, order[0], *last]
    else:
        chosen = np.resize(order, max(2, count)).tolist()
    few = keras_hooks.map_structure(lambda tensor: keras_hooks.chosen_rows(tensor, chosen), rows)
    return CheckRows(few)
