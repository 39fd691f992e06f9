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
# LAPACK and BLAS work on this in one thread.
_SMALL = 32

# Up to here the zeros of a triangular matrix are multiplied with the rest.
_HALVED = 128

# One look at all scores serves for this part of the units: where there are many, hundreds cost
# next to nothing. What each costs is exact when it goes.
_AT_ONCE = 128

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
    if not all(np.isfinite(reader.gram).all() for reader in readers):
        return survivors.removal  # of a network that has diverged nothing can be said
    states = [_State(reader) for reader in readers]
    count = min(max(1, units // _AT_ONCE), _BLOCK)
    while True:
        scores = np.mean([state.scores() for state in states], 0)
        cheapest, bar = survivors.cheapest(scores, count)
        for unit in cheapest:
            cost = sum(state.cost(unit) for state in states) / len(states)
            if unit != cheapest[0] and (cost > bar or not survivors.mortal[unit]):
                continue  # what could have replaced it has just gone: others are cheaper now
            if not survivors.remove(unit, cost):
                return survivors.removal
            for state in states:
                state.remove(unit)
        if not cheapest:
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
    own = matrix[np.ix_(basis, basis)]
    root = _inverse_root_of(own)
    result: np.ndarray = root.T @ (root @ gram[np.ix_(basis, removed)])
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


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    """Of a positive definite *matrix* of unit diagonal: R, where its inverse is R^T R.

    The inverse of its Cholesky factor, by halves: a few large products in place of LAPACK's
    many small ones.
    """
    n = len(matrix)
    if n <= _SMALL:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)))
    half = n // 2
    first = _inverse_root(matrix[:half, :half])
    below = matrix[half:, :half] @ first.T
    second = _inverse_root(matrix[half:, half:] - below @ below.T)
    result = np.zeros_like(matrix)
    result[:half, :half], result[half:, half:] = first, second
    result[half:, :half] = -second @ (below @ first)
    return result


def _squared(root: np.ndarray) -> np.ndarray:
    """R^T R of a lower triangular R of at least as many rows as columns, by halves too."""
    n = root.shape[1]
    if n <= _HALVED:
        return np.asarray(root.T @ root)
    half = n // 2
    below = root[half:, :half]
    result = np.empty((n, n))
    result[:half, :half] = _squared(root[:half, :half])
    result[:half, :half] += below.T @ below
    result[half:, half:] = _squared(root[half:, half:])
    np.matmul(root[half:, half:].T, below, out=result[half:, :half])
    result[:half, half:] = result[half:, :half].T
    return result


def _inverse_root_of(matrix: np.ndarray) -> np.ndarray:
    """The same of a *matrix* of any scale."""
    scale = np.sqrt(np.diagonal(matrix))
    matrix = matrix / scale
    matrix /= scale[:, None]
    root = _inverse_root(matrix)
    root /= scale
    return root


def _swapped(pairs: np.ndarray) -> np.ndarray:
    """Columns 1, 0, 3, 2, ..."""
    rows, columns = pairs.shape
    return pairs.reshape(rows, columns // 2, 2)[:, :, ::-1].reshape(rows, columns)


class _State:
    """What is needed of one reader's matrices, for the units that are left.

    Columns are noted since the last product: ``G^-1 - V V^T``, ``W - A B^T - B A^T``. ``W`` is
    held as exactly as the network's weights are; ``G^-1``, which is near singular, in float64.
    """

    def __init__(self, reader: Reader) -> None:
        n = len(reader.outgoing)
        matrix, dead = _regular(reader.gram)
        root = _inverse_root_of(matrix)[:, :n]
        self._units = n
        self._left = np.arange(n)  # unit of each row
        self._row = np.arange(n)  # row of each unit
        self._gone: list[int] = []  # rows
        self._inverse = _squared(root)
        outgoing = reader.outgoing.astype(np.float32)  # as the network has them
        self._weights = outgoing @ outgoing.T
        self._dead = dead[:n]
        energy = np.einsum("ij,ij->", reader.gram[:n, :n], self._weights)
        self._energy = max(float(energy), 1e-300)
        self._v = np.zeros((n, _BLOCK))
        # A and B lie interleaved: one product with what is noted serves for both.
        self._ab = np.zeros((n, 2 * _BLOCK), np.float32)
        self._room = matrix.reshape(-1)
        self._look()

    def _look(self) -> None:
        self._inverse_diagonal = np.diagonal(self._inverse).copy()
        self._weights_diagonal = np.diagonal(self._weights).astype(np.float64)

    def scores(self) -> np.ndarray:
        """What it costs to lose each unit, relative; of the gone without meaning."""
        scores = np.full(self._units, np.inf)
        whole = self._inverse_diagonal > 0
        lost = np.maximum(self._weights_diagonal[whole], 0.0) / self._inverse_diagonal[whole]
        scores[self._left[whole]] = lost / self._energy
        scores[self._dead] = 0.0
        return scores

    def cost(self, unit: int) -> float:
        """The same of one."""
        if self._dead[unit]:
            return 0.0
        row = self._row[unit]
        inverse, weights = float(self._inverse_diagonal[row]), float(self._weights_diagonal[row])
        return max(weights, 0.0) / inverse / self._energy if inverse > 0 else np.inf

    def remove(self, unit: int) -> None:
        if len(self._gone) == _BLOCK:
            self._end_block()
        row, k = int(self._row[unit]), len(self._gone)
        living = len(self._left)
        v, ab = self._v[:living, :k], self._ab[:living, : 2 * k]
        # One vector at a time: BLAS shares small products of matrices among threads, which
        # wait long for each other on a busy machine.
        inverse = self._inverse[row] - v @ v[row]  # symmetric: a row is a column
        weights = (self._weights[row] - ab @ _swapped(ab[row : row + 1])[0]).astype(np.float64)
        pivot = max(float(inverse[row]), 1e-300)
        share = inverse / pivot
        other = weights - 0.5 * weights[row] * share
        self._v[:living, k] = inverse / np.sqrt(pivot)
        self._ab[:living, 2 * k], self._ab[:living, 2 * k + 1] = share, other
        self._gone.append(row)
        self._inverse_diagonal -= inverse * share
        self._weights_diagonal -= 2 * share * other

    def _end_block(self) -> None:
        """Apply the noted columns, to the rows and columns of the living alone."""
        before = len(self._left)
        count = before - len(self._gone)
        gone = np.array(self._gone)
        # Those behind who live take the places of the gone before them.
        free = gone[gone < count]
        movers = np.setdiff1d(np.arange(count, before), gone)
        for matrix in (self._inverse, self._weights):
            matrix[free] = matrix[movers]
            matrix[:, free] = matrix[:, movers]
        for noted in (self._v, self._ab):
            noted[free] = noted[movers]
        self._left[free] = self._left[movers]
        self._left = self._left[:count]
        self._row[self._left] = np.arange(count)
        v, ab = self._v[:count], self._ab[:count]
        self._inverse, self._weights = self._inverse[:count, :count], self._weights[:count, :count]
        self._inverse -= self._product(v, v.copy())
        self._weights -= self._product(ab, _swapped(ab))
        self._gone = []
        self._look()

    def _product(self, columns: np.ndarray, others: np.ndarray) -> np.ndarray:
        """A B^T, in memory that the next call takes again."""
        count = len(columns)
        room = self._room.view(columns.dtype)[: count * count].reshape(count, count)
        return np.matmul(columns, others.T, out=room)
