"""Units and their ties: a union-find over the channels of a network. Pure."""

from __future__ import annotations

import numpy as np

__all__ = ["Units", "occurrences"]


class Units:
    """Every channel that a layer makes is a unit, a whole number.

    Units that can only be removed together are tied; units that must be kept are fixed; units whose
    activation does not scale with their incoming vector are bent.
    """

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._fixed: set[int] = set()
        self._inhomogeneous: set[int] = set()
        self._roots: np.ndarray | None = None  # of every unit, as long as nothing changes

    def new(self, count: int) -> np.ndarray:
        """*count* new units, shape (count,)."""
        self._roots = None
        first = len(self._parent)
        self._parent.extend(range(first, first + count))
        return np.arange(first, first + count)

    def new_fixed(self, count: int) -> np.ndarray:
        """*count* new units that stay, shape (count,)."""
        units = self.new(count)
        self.fix(units)
        return units

    def root(self, unit: int) -> int:
        """Representative of the units to which *unit* is tied."""
        parent = self._parent
        while parent[unit] != unit:
            parent[unit] = parent[parent[unit]]
            unit = parent[unit]
        return unit

    def roots(self, units: np.ndarray) -> np.ndarray:
        """Roots of *units*, in the same shape."""
        if self._roots is None:
            self._roots = np.array([self.root(u) for u in range(len(self._parent))], np.int64)
        found: np.ndarray = self._roots[units]
        return found

    def tie(self, these: np.ndarray, those: np.ndarray) -> None:
        """Tie two arrays of the same shape, unit by unit."""
        self._roots = None
        for a, b in zip(these.ravel().tolist(), those.ravel().tolist(), strict=True):
            x, y = self.root(a), self.root(b)
            if x != y:
                self._parent[max(x, y)] = min(x, y)

    def fix(self, units: np.ndarray) -> None:
        self._fixed.update(units.ravel().tolist())

    def mark_inhomogeneous(self, units: np.ndarray) -> None:
        self._inhomogeneous.update(units.ravel().tolist())

    def fixed_roots(self) -> set[int]:
        """Roots of units that must stay."""
        return {self.root(u) for u in self._fixed}

    def inhomogeneous_roots(self) -> set[int]:
        """Roots of units that do not scale."""
        return {self.root(u) for u in self._inhomogeneous}


def occurrences(roots: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The indices of each of *members* in *roots*: shape (most occurrences, members), -1 for none.

    Args:
        roots: along an axis.
        members: distinct roots.
    """
    order = np.argsort(roots, kind="stable")
    ordered = roots[order]
    starts = np.searchsorted(ordered, members, "left")
    counts = np.searchsorted(ordered, members, "right") - starts
    result = np.full((int(counts.max(initial=0)), len(members)), -1, np.int64)
    for k in range(len(result)):
        has = counts > k
        result[k, has] = order[starts[has] + k]
    return result
