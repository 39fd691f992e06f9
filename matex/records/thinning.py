"""Limit on how many of a long row of things are kept: every k-th, where k doubles. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["Thinning", "stride_for", "thinned"]

_T = TypeVar("_T")

#: The number of things that are kept before k doubles.
ROOM = 500


class Thinning:
    """Keeps numbers that are multiples of ``every``, which doubles with each *room* of them.

    Ranks that count alike keep the same numbers. Of N numbers some ``room * log2(N / room)`` are
    kept, and all multiples of the last ``every`` among them.

    Args:
        room: numbers kept before ``every`` doubles.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.every = 1
        self._room = room
        self._kept = 0

    def keeps(self, number: int) -> bool:
        """Whether *number* is kept; each is asked for once, in ascending order."""
        if number % self.every:
            return False
        self._kept += 1
        if self._kept > self._room:
            self._kept = 1
            self.every *= 2
            return number % self.every == 0
        return True


def stride_for(numbers: Iterable[int], *, least: int = 1, most: int) -> int:
    """The smallest power of two, from *least* on, of which at most *most* numbers are multiples.

    Args:
        numbers: the numbers to choose among, all different.
        least: power of two.
        most: at least 1, for 0 is a multiple of all.
    """
    stride = least
    left = [number for number in numbers if number % stride == 0]
    while len(left) > most:
        stride *= 2
        left = [number for number in left if number % stride == 0]
    return stride


def thinned(things: Sequence[_T], *, most: int) -> list[_T]:
    """An even choice of at most *most* of *things*: the first of each group of equal size."""
    return list(things[:: -(-len(things) // most) or 1])
