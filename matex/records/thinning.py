"""Limit on the number of kept items of a long sequence: every k-th, where k doubles. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["Thinning", "stride_for", "thinned"]

_T = TypeVar("_T")

#: Number of items that are kept before k doubles.
LIMIT = 500


class Thinning:
    """Keeps numbers that are multiples of ``every``, which doubles with each *limit* of them.

    Ranks that count equally keep the same numbers. Of N numbers some ``limit * log2(N / limit)``
    are kept, including all multiples of the last ``every``.

    Args:
        limit: numbers kept before ``every`` doubles.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.every = 1
        self._limit = limit
        self._kept = 0

    def keeps(self, number: int) -> bool:
        """Whether *number* is kept; called once for each, in ascending order."""
        if number % self.every:
            return False
        self._kept += 1
        if self._kept > self._limit:
            self._kept = 1
            self.every *= 2
            return number % self.every == 0
        return True


def stride_for(numbers: Iterable[int], *, least: int = 1, limit: int) -> int:
    """Smallest power of two, from *least* on, with at most *limit* multiples among *numbers*.

    Args:
        numbers: distinct numbers to choose from.
        least: power of two.
        limit: at least 1, because 0 is a multiple of every number.
    """
    stride = least
    left = [number for number in numbers if number % stride == 0]
    while len(left) > limit:
        stride *= 2
        left = [number for number in left if number % stride == 0]
    return stride


def thinned(things: Sequence[_T], *, limit: int) -> list[_T]:
    """Even selection of at most *limit* of *things*: the first of each group of equal size."""
    return list(things[:: -(-len(things) // limit) or 1])
