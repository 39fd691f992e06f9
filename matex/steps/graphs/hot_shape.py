"""Choice of the batch sizes that get a graph of their own. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict

__all__ = ["AFTER", "HotShape"]

#: Number of steps with batches of one size until they get their own graph. Making the graph takes
#: as long as it saves in some two thousand steps of a small model.
AFTER = 1000
_SHORT_S = 0.01


class HotShape:
    """Counts steps by the size of their batches.

    Args:
        after: number of steps of one size until it gets a graph; 1000 by default.
        short_s: longest mean duration of such a step, seconds, 0.01 by default; a longer step would
            not become noticeably faster.
        pays_after_s: seconds of steps of one size until it gets a graph, however long they are, for
            steps of which a known size saves a part: those with loops. None by default.
    """

    def __init__(
        self, *, after: int = AFTER, short_s: float = _SHORT_S, pays_after_s: float | None = None
    ) -> None:
        self._after = after
        self._short_s = short_s
        self._pays_after_s = pays_after_s
        self._steps: Counter[int] = Counter()
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._chosen: set[int] = set()

    def is_hot(self, size: int, seconds: float) -> bool:
        """Count a step of *size* that took *seconds*; return whether to make the graph now.

        True once per size. The last batch of an epoch, and shares after a death, have other sizes.
        """
        self._steps[size] += 1
        self._seconds[size] += seconds
        if size in self._chosen or not self._pays(self._steps[size], self._seconds[size]):
            return False
        self._chosen.add(size)
        return True

    def _pays(self, steps: int, seconds: float) -> bool:
        if self._pays_after_s is not None:
            return steps > 1 and seconds >= self._pays_after_s
        return steps == self._after and seconds < steps * self._short_s
