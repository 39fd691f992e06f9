"""Greedy removal by the Gram matrix, blocked like LAPACK's factorisations.

Removing unit j with the best linear replacement by the others costs
``|u_j|^2 / (G^-1)_jj`` in mean square; then ``G^-1 -= g g^T / g_j`` with
``g = (G^-1)_:j``, and ``U -= (g / g_j) u_j^T``. Only the diagonals of ``G^-1`` and of
``W = U U^T`` are needed to choose, and one column of each to update them: see
:mod:`matex.apoptosis.criteria.downdate`. That is some fifty times as fast as an update of the whole
matrices for every unit.
"""

from __future__ import annotations

import numpy as np

from matex.apoptosis.criteria.downdate import BLOCK, Compaction, Inverse, products_of
from matex.apoptosis.criteria.triangular import inverse_root, squared
from matex.apoptosis.group_statistics import GreedyRemoval, Limits, Reader, Removal

__all__ = ["remove_by_gram", "replacement"]

# Fraction of the units for which one look at all scores serves: with many units, hundreds cost next
# to nothing. Each one's cost is exact when it is removed.
_AT_ONCE = 128

# After a block of removals this multiple of it, and at least a block, of the cheapest removable
# units is considered: of two units that can replace each other one is removed.
_CANDIDATES = 2

# Fraction of each unit's own mean square. It keeps units that the sample cannot distinguish from
# getting opposite, huge weights; duplicates are still replaced to 1e-7.
_RIDGE = 1e-7


def remove_by_gram(readers: tuple[Reader, ...], limits: Limits) -> Removal:
    """Remove the units whose work the others can take over best; pure.

    The cost of a unit is the mean over the readers of the lost mean square of each reader's sum
    over all units, relative to that.
    """
    units = len(readers[0].outgoing)
    greedy = GreedyRemoval(units, limits)
    if not all(np.isfinite(matrix).all() for reader in readers for matrix in reader):
        return greedy.removal  # of a network that has diverged nothing can be said
    states = [_State(reader) for reader in readers]
    count = min(max(1, units // _AT_ONCE), BLOCK)
    while True:
        cheapest, bar = greedy.cheapest(_scores(states), count)
        for unit in cheapest:
            cost = sum(state.cost(unit) for state in states) / len(states)
            if unit != cheapest[0] and (cost > bar or not greedy.removable[unit]):
                continue  # its replacement was just removed: others are cheaper now
            if not greedy.remove(unit, cost):
                return greedy.removal
            for state in states:
                state.remove(unit)
        if not cheapest:
            return greedy.removal
        still = limits.most - greedy.removed_count
        if states[0].room < count and still:
            few = max(_CANDIDATES * still, BLOCK)
            left = greedy.candidates(_scores(states), few)
            for state in states:
                state.compact(left)


def _scores(states: list[_State]) -> np.ndarray:
    total = states[0].scores()
    for state in states[1:]:
        total += state.scores()
    return total / len(states)


def replacement(gram: np.ndarray, kept: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """The least squares that give the *removed* columns from the *kept*, and the constant.

    One solution for all equals the removals one by one, and is more exact.
    """
    constant = np.arange(len(kept) + len(removed), len(gram))
    basis = np.concatenate([kept, constant])
    if not len(removed):
        return np.zeros((len(basis), 0))
    matrix, scale, _ = _regular(gram[np.ix_(basis, basis)])
    root = inverse_root(matrix)
    root /= scale
    result: np.ndarray = root.T @ (root @ gram[np.ix_(basis, removed)])
    return result


def _regular(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """*gram* with unit diagonal and safe to invert, its scale, and the mask of dead units."""
    diagonal = np.diagonal(gram)
    least = 1e-12 * max(float(diagonal.mean()), 1e-300)
    dead = diagonal <= least
    scale = np.sqrt(np.where(dead, 1.0, diagonal * (1 + _RIDGE)))
    matrix = gram / scale
    matrix /= scale[:, None]
    matrix[dead] = 0.0
    matrix[:, dead] = 0.0
    np.fill_diagonal(matrix, 1.0)
    return matrix, scale, dead


class _State:
    """Parts of one reader's matrices for the removable units.

    ``W`` is held as exactly as the network's weights are; ``G^-1``, which is near singular,
    in float64.
    """

    def __init__(self, reader: Reader) -> None:
        n = len(reader.outgoing)
        matrix, scale, dead = _regular(reader.gram)
        root = inverse_root(matrix)[:, :n]
        root /= scale[:n]
        self._inverse = Inverse(squared(root))
        self._outgoing = products_of(reader.outgoing)
        self._energy = max(self._outgoing.energy(reader.gram[:n, :n]), 1e-300)
        self._dead = dead[:n]
        self._units = n
        self._left = np.arange(n)  # unit of each row
        self._row = np.arange(n)  # row of each unit
        self._gone = 0  # since the block began

    def scores(self) -> np.ndarray:
        """The relative cost of losing each unit; without meaning, or infinite, for the removed."""
        lost = np.full(len(self._left), np.inf)
        inverse = self._inverse.diagonal
        np.divide(self._outgoing.diagonal, inverse * self._energy, out=lost, where=inverse > 0)
        lost[self._dead[self._left]] = 0.0
        scores = np.full(self._units, np.inf)
        scores[self._left] = np.maximum(lost, 0.0, out=lost)
        return scores

    def cost(self, unit: int) -> float:
        """Cost of removing *unit*, as in :meth:`scores`; 0 for a removed one."""
        if self._dead[unit]:
            return 0.0
        row = self._row[unit]
        inverse = float(self._inverse.diagonal[row])
        lost = max(float(self._outgoing.diagonal[row]), 0.0)
        return lost / inverse / self._energy if inverse > 0 else np.inf

    @property
    def room(self) -> int:
        """Number of removals that are possible before :meth:`compact` is called."""
        return BLOCK - self._gone

    def remove(self, unit: int) -> None:
        row = int(self._row[unit])
        self._outgoing.remove(row, self._inverse.remove(row))
        self._gone += 1

    def compact(self, left: np.ndarray) -> None:
        """Continue with the units in the mask *left* only."""
        to = Compaction.to(left[self._left])
        self._inverse.compact(to)
        self._outgoing.compact(to)
        self._left = to.rows(self._left)
        self._row[self._left] = np.arange(to.left)
        self._gone = 0
