"""The choice of batch sizes that are worth a graph of their own. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict

__all__ = ["AFTER", "HotShape"]

#: Steps with batches of one size until they get a graph of their own. To make it takes as
#: long as some two thousand steps of a small model save by it.
AFTER = 1000
_SHORT_S = 0.01


class HotShape:
    """Counts steps by the size of their batch.

    Args:
        after: number of steps of one size that deserve a graph; 1000 by default.
        short_s: longest mean time of such a step, in seconds, 0.01 by default; a longer step
            would not become noticeably faster.
    """

    def __init__(self, *, after: int = AFTER, short_s: float = _SHORT_S) -> None:
        self._after = after
        self._short_s = short_s
        self._steps: Counter[int] = Counter()
        self._seconds: defaultdict[int, float] = defaultdict(float)

    def is_hot(self, size: int, seconds: float) -> bool:
        """Count a step of *size* that took *seconds*; whether to make the graph now, once a size.

        The last batch of an epoch, and shares after a death, have sizes of their own.
        """
        self._steps[size] += 1
        self._seconds[size] += seconds
        if self._steps[size] != self._after:
            return False
        return self._seconds[size] < self._after * self._short_s
