"""Which batch size is worth a graph of its own. Pure."""

from __future__ import annotations

__all__ = ["AFTER", "Usual"]

#: Steps on end with batches of one size until they get a graph of their own. To make it takes as
#: long as some two thousand steps of a small model save by it.
AFTER = 1000
_SHORT_S = 0.01


class Usual:
    """Which batch size deserves its own graph. Pure, but for the clock it is told.

    Args:
        after: so many steps on end of one size.
        short_s: and none for a model whose steps take longer: they would not feel it.
    """

    def __init__(self, *, after: int = AFTER, short_s: float = _SHORT_S) -> None:
        self._after = after
        self._short_s = short_s
        self._size = -1
        self._steps = 0
        self._since = 0.0

    def deserves(self, size: int, now: float) -> bool:
        """Count a batch of *size* that begins at *now*, in seconds; whether to make its graph.

        True at most once for a stretch of steps.
        """
        if size != self._size:
            self._size, self._steps, self._since = size, 0, now
        self._steps += 1
        if self._steps != self._after:
            return False
        return now - self._since < self._after * self._short_s
