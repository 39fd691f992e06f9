"""Repetition of the separability check while a step is used.

The first check sees the weights before training and a few rows. What is 0 there shows later: a
penalty above a threshold that nothing has reached yet, a term for a rare kind of row. So each rank
repeats the check before some steps, alone and on rows of its own; what it finds travels as a flag
in the header of that step's exchange, and the next step is computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from matex import keras_hooks
from matex.partition.spans import Span, size
from matex.sources.interface import GlobalBatch

__all__ = ["find_again", "is_due"]

_AFTER = (3, 10, 30, 100)
_EVERY = 300
_ROWS = 32


def is_due(steps: int) -> bool:
    """Whether the check is repeated *steps* steps after the first one. Pure."""
    return steps in _AFTER or (steps > 0 and steps % _EVERY == 0)


def find_again(batch: GlobalBatch, own: Sequence[Span], find: Callable[[Any], str]) -> str:
    """Return what *find* finds in two sets of rows of *batch*; "" if not in both. Local.

    One set is not enough: a value that lies on the edge of a step function may fall on either side
    of it by rounding.

    Args:
        batch: global batch.
        own: rows of this rank, which it reads for the step anyway. Where there are fewer than
            four, rows of the whole batch are taken.
        find: function that names what does not add up over given rows; "" if nothing.
    """
    found = ""
    for rows in _sets(batch, own):
        found = find(rows)
        if not found:
            return ""
    return found


def _sets(batch: GlobalBatch, own: Sequence[Span]) -> Iterator[Any]:
    """Two sets of rows, disjoint if there are four; none of a batch of a single row."""
    spans = _first(own if size(own) >= 4 else [batch.span], 2 * _ROWS)
    count = size(spans)
    if count < 2:
        return
    rows, most = batch.rows(spans), max(2, count // 2)
    for first in (0, count - most):
        yield keras_hooks.map_structure(
            lambda tensor, first=first: keras_hooks.cut_rows(tensor, first, first + most), rows
        )


def _first(spans: Sequence[Span], count: int) -> list[Span]:
    """The first *count* rows of *spans*. Pure."""
    taken: list[Span] = []
    for lo, hi in spans:
        end = min(hi, lo + count - size(taken))
        if lo < end:
            taken.append((lo, end))
    return taken
