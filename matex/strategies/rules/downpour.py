"""Downpour SGD: workers push what they have moved, and pull what the master has by then.

(Dean et al., Large Scale Distributed Deep Networks, 2012.) The staleness of a push
is the number of updates that the master has made since that worker pulled.
M workers that do not wait for each other act as a momentum of 1 - 1/M by
themselves (arXiv:1606.04487).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

__all__ = ["Accumulator", "Versions", "explicit_momentum", "rate_for"]


def explicit_momentum(wanted: float, workers: int) -> float:
    """What is left to add for a *wanted* momentum in all, with so many living workers."""
    return max(0.0, wanted - (1 - 1 / workers))


def rate_for(rate: float, staleness: int) -> float:
    """The learning rate divided by the staleness of what it is applied to."""
    return rate / max(1, staleness)


class Accumulator:
    """One worker's movement since its last push. Local.

    Args:
        sync_every: steps between pushes; 1 is plain asynchronous SGD.
    """

    def __init__(self, size: int, sync_every: int) -> None:
        self._moved = np.zeros(size, np.float32)
        self._every = sync_every
        self._steps = 0

    def add(self, change: np.ndarray) -> bool:
        """Count one step's *change* of the weights; whether a push is due."""
        self._moved += change
        self._steps += 1
        return self._steps >= self._every

    def take(self) -> np.ndarray:
        """What to push; counting begins anew."""
        moved, self._moved = self._moved, np.zeros_like(self._moved)
        self._steps = 0
        return moved


class Versions:
    """The master's count of updates, and how stale each push was. Local to the master.

    Args:
        bound: the largest staleness that is applied, None for any. 0 is synchronous.
    """

    def __init__(self, bound: int | None = None) -> None:
        self._bound = bound
        self._pulled: dict[int, int] = {}
        self.version = 0
        self.staleness: Counter[int] = Counter()

    def pulled(self, rank: int) -> None:
        """*rank* has been given the present weights."""
        self._pulled[rank] = self.version

    def pushed(self, rank: int) -> int | None:
        """The staleness of a push from *rank*, now applied; None where it must be dropped."""
        stale = self.version - self._pulled.get(rank, 0)
        if self._bound is not None and stale > self._bound:
            return None
        self.version += 1
        self.staleness[stale] += 1
        return stale

    def lost(self, rank: int) -> None:
        """*rank* died: nothing is waited for any more."""
        self._pulled.pop(rank, None)
