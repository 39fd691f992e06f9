"""Repetition of the separability check while a step is used.

The first check sees the weights before training and a few rows. What is 0 there shows later: a
penalty above a threshold that nothing has reached yet, a term for a rare kind of row. So each rank
repeats the check before some steps, alone and on rows of its own; what it finds travels as a flag
in the header of that step's exchange, and the next step is computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from matex import keras_hooks
from matex.sources.interface import GlobalBatch

__all__ = ["find_again", "is_due"]

_AFTER = (3, 10, 30, 100)
_EVERY = 300
_ROWS = 32


def is_due(steps: int) -> bool:
    """Whether the check is repeated *steps* steps after the first one. Pure."""
    return steps in _AFTER or (steps > 0 and steps % _EVERY == 0)


def find_again(batch: GlobalBatch, fraction: float, find: Callable[[Any], str]) -> str:
    """Return what *find* finds in two sets of rows of *batch*; "" if not in both. Local.

    One set is not enough: a value that lies on the edge of a step function may fall on either side
    of it by rounding.

    Args:
        batch: global batch.
        fraction: place in the batch, from 0 to 1, of the first row to take.
        find: function that names what does not add up over given rows; "" if nothing.
    """
    found = ""
    for rows in _sets(batch, fraction):
        found = find(rows)
        if not found:
            return ""
    return found


def _sets(batch: GlobalBatch, fraction: float) -> Iterator[Any]:
    """Two sets of rows, disjoint if there are enough; none of a batch of a single row."""
    lo, hi = batch.span
    count = hi - lo
    if count < 2:
        return
    most = min(_ROWS, max(2, count // 2))
    start = lo + int(fraction * count)
    end = min(hi, start + 2 * most)
    around = min(start, lo + 2 * most - (end - start))
    spans = [span for span in ((start, end), (lo, around)) if span[0] < span[1]]
    rows = batch.rows(spans)
    taken = sum(b - a for a, b in spans)
    for first in (0, taken - most):
        yield keras_hooks.map_structure(
            lambda tensor, first=first: keras_hooks.cut_rows(tensor, first, first + most), rows
        )
