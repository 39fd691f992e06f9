"""Ranks that are slow: neither dead nor stopped, but late in every step. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["Stragglers"]

# Longer than this many times the others' median, in so many comparisons on end.
_FACTOR, _OFTEN = 2.0, 3


class Stragglers:
    """Remembers who was slow; equal on all ranks that are given equal times."""

    def __init__(self) -> None:
        self._late: dict[int, int] = {}

    def judge(self, ranks: Sequence[int], busy_us: Sequence[int]) -> dict[int, float]:
        """The ranks that are slow now, and how many times as long as the others they take.

        A rank is in it once each time it becomes slow.

        Args:
            busy_us: computing time of each of *ranks* in a step, without waiting, in microseconds.
        """
        found: dict[int, float] = {}
        for place, rank in enumerate(ranks):
            others = [*busy_us[:place], *busy_us[place + 1 :]]
            ratio = busy_us[place] / max(1.0, statistics.median(others)) if others else 0.0
            if ratio <= _FACTOR:
                self._late.pop(rank, None)
                continue
            self._late[rank] = self._late.get(rank, 0) + 1
            if self._late[rank] == _OFTEN:
                found[rank] = ratio
        return found
