"""Input of a criterion, measurements of a group of units, and its output, a removal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["GreedyRemoval", "GroupStatistics", "Limits", "Reader", "Removal"]


class Reader(NamedTuple):
    """A layer that reads the units of a group.

    ``gram`` is E[a a^T] of the units' activations a where they are read, or any multiple of
    it, float64, shape (n, n); or (n + 1, n + 1), the last being a constant 1, for a reader
    whose bias can take over what is constant. ``outgoing`` is what it makes of them, shape
    (n, m): row j holds all weights that multiply unit j. Neither is to be written.
    """

    gram: np.ndarray
    outgoing: np.ndarray

    @property
    def has_constant(self) -> bool:
        """Whether a constant 1 is among the inputs."""
        return len(self.gram) > len(self.outgoing)


class GroupStatistics(NamedTuple):
    """Measurements of one group of n units.

    ``incoming`` holds the vectors [w; b] that make the units, shape (n, d), float64.
    ``scales``: whether a unit with a multiple of another's incoming vector has that multiple
    of its activation (ReLU and linear units; the multiple being positive). ``importance``: what the
    loss says about each unit, shape (n,), for criteria that ask it.
    """

    incoming: np.ndarray
    readers: tuple[Reader, ...]
    scales: bool
    importance: np.ndarray | None = None

    @property
    def units(self) -> int:
        return len(self.incoming)

    @property
    def outgoing(self) -> np.ndarray:
        """Outgoing rows of the units in all readers, shape (n, all m), float64."""
        return np.concatenate([one.outgoing.astype(np.float64) for one in self.readers], 1)


class Limits(NamedTuple):
    """The limits of a removal.

    At most ``most`` units are removed, at a cost of at most ``budget``, relative to the effect of
    all units; of each of ``parts``, pairs of indices of units and a number, at least that number is
    kept.
    """

    most: int
    budget: float
    parts: tuple[tuple[np.ndarray, int], ...] = ()


class Removal(NamedTuple):
    """Removed units, in the order of removal, and kept units, ascending.

    ``costs`` are in the criterion's own terms, relative: 0 for a unit that is compensated exactly,
    1 for the loss of all. Each is the cost of the unit and of all that go before it.
    """

    kept: np.ndarray
    removed: np.ndarray
    costs: np.ndarray

    @property
    def cost(self) -> float:
        """The cost of all removed units."""
        return float(self.costs[-1]) if len(self.costs) else 0.0

    def within(self, budget: float) -> Removal:
        """The removal of as many units as *budget* pays for, the cheapest first. Pure."""
        count = int(np.searchsorted(self.costs, budget, "right"))
        kept = np.sort(np.concatenate([self.kept, self.removed[count:]]))
        return Removal(kept, self.removed[:count], self.costs[:count])


class GreedyRemoval:
    """Greedy removal of units: kept units, and removable ones among them. Local."""

    def __init__(self, units: int, limits: Limits) -> None:
        self._limits = limits
        self._parts = [(np.asarray(part), least) for part, least in limits.parts]
        self.alive = np.ones(units, bool)
        self.removable = np.ones(units, bool)
        self.removed: list[int] = []
        self.cost = 0.0
        self._costs: list[float] = []
        self._protect()

    def _protect(self) -> None:
        for part, least in self._parts:
            if np.count_nonzero(self.alive[part]) <= least:
                self.removable[part] = False

    @property
    def removal(self) -> Removal:
        """The removal up to now."""
        removed = np.array(self.removed, np.int64)
        return Removal(np.flatnonzero(self.alive), removed, np.array(self._costs, np.float64))

    def pick(self, scores: np.ndarray) -> int | None:
        """The unit of the smallest score, or None when no more may go."""
        if len(self.removed) >= self._limits.most or self.alive.sum() <= 1:
            return None
        open_to = self.alive & self.removable
        if not open_to.any():
            return None
        return int(np.argmin(np.where(open_to, scores, np.inf)))

    def keep(self, unit: int) -> None:
        """Remove *unit* not at all."""
        self.removable[unit] = False

    @property
    def removed_count(self) -> int:
        """Number of removed units."""
        return len(self.removed)

    def candidates(self, scores: np.ndarray, count: int) -> np.ndarray:
        """A mask of *count* units that may go, of the smallest scores.

        All removable units if the group has parts, as one may reach its limit before the others.
        """
        open_to = self.alive & self.removable
        if any(len(part) < len(scores) for part, _ in self._parts):
            return open_to
        result = np.zeros(len(scores), bool)
        result[np.argsort(np.where(open_to, scores, np.inf), kind="stable")[:count]] = True
        return result & open_to

    def cheapest(self, scores: np.ndarray, count: int) -> tuple[list[int], float]:
        """The *count* units of the smallest scores, and the score of the next; none to end."""
        first = self.pick(scores)
        if first is None:
            return [], np.inf
        if count == 1:
            return [first], np.inf
        open_to = np.where(self.alive & self.removable, scores, np.inf)
        near = np.argpartition(open_to, min(count, len(scores) - 1))[: count + 1]
        ordered = near[np.argsort(open_to[near], kind="stable")]
        finite = ordered[np.isfinite(open_to[ordered])]
        bar = float(open_to[finite[count]]) if len(finite) > count else np.inf
        others = [int(unit) for unit in finite[:count] if unit != first]
        return [first, *others[: count - 1]], bar  # among equal ones first may not be of these

    def remove(self, unit: int, cost: float) -> bool:
        """Remove *unit* at *cost*; return False, without a change, if the cost is too high."""
        enough = len(self.removed) >= self._limits.most or self.alive.sum() <= 1
        if enough or self.cost + cost > self._limits.budget:
            return False
        self.cost += cost
        self._costs.append(self.cost)
        self.alive[unit] = False
        self.removed.append(unit)
        self._protect()
        return True
