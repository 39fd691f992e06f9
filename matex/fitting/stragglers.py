"""Detection of slow ranks: alive and running, but late in every step. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["Stragglers"]

# Ratio to the others' median, and number of consecutive comparisons above it.
_FACTOR, _OFTEN = 2.0, 3


class Stragglers:
    """Remembers slow ranks; equal on all ranks, for equal times."""

    def __init__(self) -> None:
        self._late: dict[int, int] = {}

    def detect(self, ranks: Sequence[int], busy_us: Sequence[int]) -> dict[int, float]:
        """Ranks that have become slow, with the ratio of their time to the others' median.

        A rank is returned once each time it becomes slow.

        Args:
            busy_us: computing time of each of *ranks* per step, without waiting, microseconds.
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
