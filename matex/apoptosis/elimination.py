"""Greedy removal by the Gram matrix, as blocked as LAPACK does its factorisations.

Removing unit j with the best linear replacement by the others costs
``|u_j|^2 / (G^-1)_jj`` in mean square; then ``G^-1 -= g g^T / g_j`` with
``g = (G^-1)_:j``, and ``U -= (g / g_j) u_j^T``. Only the diagonals of ``G^-1`` and of
``W = U U^T`` are needed to choose, and one column of each to update them: so the updates
are noted as columns, and applied by one matrix product for each block of them. That is
some fifty times as fast as an update of the whole matrices for every unit.
"""

from __future__ import annotations

import numpy as np

from matex.apoptosis.evidence import Limits, Reader, Removal, Survivors

__all__ = ["remove_by_gram", "replacement"]

_BLOCK = 96

# Of each unit's own mean square. Keeps what the sample cannot tell apart from taking
# opposite, huge weights; duplicates are still replaced to 1e-7.
_RIDGE = 1e-7


def remove_by_gram(readers: tuple[Reader, ...], limits: Limits) -> Removal:
    """Let the units go whose work the others can best take over; pure.

    The cost of a unit is the mean over the readers of the mean square that is lost of
    what each makes of all units, relative to it.
    """
    units = len(readers[0].outgoing)
    survivors = Survivors(units, limits)
    states = [_State(reader) for reader in readers]
    while True:
        scores = np.zeros(units)
        for state in states:
            scores += state.scores()
        unit = survivors.pick(scores / len(states))
        if unit is None or not survivors.remove(unit, float(scores[unit]) / len(states)):
            break
        for state in states:
            state.remove(unit)
    return survivors.removal


def replacement(gram: np.ndarray, kept: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """The least squares that give the *removed* columns from the *kept*, and the constant.

    One solution for all is what the removals one by one amount to, and more exact.
    """
    constant = np.arange(len(kept) + len(removed), len(gram))
    basis = np.concatenate([kept, constant])
    if not len(removed):
        return np.zeros((len(basis), 0))
    matrix, _ = _regular(gram)
    result: np.ndarray = np.linalg.solve(matrix[np.ix_(basis, basis)], gram[np.ix_(basis, removed)])
    return result


def _regular(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """*gram* made safe to invert, and which units are dead."""
    diagonal = np.diagonal(gram)
    least = 1e-12 * max(float(diagonal.mean()), 1e-300)
    dead = diagonal <= least
    matrix = gram.copy()
    matrix[dead] = 0.0
    matrix[:, dead] = 0.0
    np.fill_diagonal(matrix, np.where(dead, 1.0, diagonal * (1 + _RIDGE)))
    return matrix, dead


class _State:
    """What is needed of one reader's matrices, for the units that are left."""

    def __init__(self, reader: Reader) -> None:
        n = len(reader.outgoing)
        matrix, dead = _regular(reader.gram)
        scale = np.sqrt(np.diagonal(matrix))
        inverse = np.linalg.inv(matrix / np.outer(scale, scale)) / np.outer(scale, scale)
        self._units = n
        self._left = np.arange(n)  # unit of each row
        self._row = np.arange(n)  # row of each unit
        self._gone: list[int] = []  # rows
        self._inverse = inverse[:n, :n].copy()
        self._weights = reader.outgoing @ reader.outgoing.T
        self._dead = dead[:n]
        self._energy = max(float(np.vdot(reader.gram[:n, :n], self._weights)), 1e-300)
        self._begin_block()

    def _begin_block(self) -> None:
        self._inverse_diagonal = np.diagonal(self._inverse).copy()
        self._weights_diagonal = np.diagonal(self._weights).copy()
        # Columns noted since the last product: G^-1 - V V^T, W - A B^T - B A^T.
        self._v, self._a, self._b = (np.zeros((len(self._left), _BLOCK)) for _ in range(3))

    def scores(self) -> np.ndarray:
        """What it costs to lose each unit, relative; of the gone without meaning."""
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = self._weights_diagonal / self._inverse_diagonal
        lost = np.where(self._dead[self._left], 0.0, np.maximum(lost, 0.0))
        scores = np.full(self._units, np.inf)
        scores[self._left] = np.nan_to_num(lost / self._energy, nan=np.inf, posinf=np.inf)
        return scores

    def remove(self, unit: int) -> None:
        if len(self._gone) == _BLOCK:
            self._end_block()
        row, k = int(self._row[unit]), len(self._gone)
        v, a, b = self._v[:, :k], self._a[:, :k], self._b[:, :k]
        inverse = self._inverse[row] - v @ v[row]  # symmetric: a row is a column
        pivot = max(float(inverse[row]), 1e-300)
        share = inverse / pivot
        weights = self._weights[row] - a @ b[row] - b @ a[row]
        other = weights - 0.5 * weights[row] * share
        self._v[:, k], self._a[:, k], self._b[:, k] = inverse / np.sqrt(pivot), share, other
        self._gone.append(row)
        self._inverse_diagonal -= inverse * share
        self._weights_diagonal -= 2 * share * other

    def _end_block(self) -> None:
        """Apply the noted columns, to the rows and columns of the living alone."""
        stay = np.delete(np.arange(len(self._left)), self._gone)
        v, a, b = self._v[stay], self._a[stay], self._b[stay]
        self._inverse = self._inverse[stay].take(stay, 1)
        self._inverse -= v @ v.T
        self._weights = self._weights[stay].take(stay, 1)
        self._weights -= np.hstack([a, b]) @ np.hstack([b, a]).T
        self._left = self._left[stay]
        self._row[self._left] = np.arange(len(stay))
        self._gone = []
        self._begin_block()
