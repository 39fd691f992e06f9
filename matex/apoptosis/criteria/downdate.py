"""Symmetric matrices that lose rows and columns one by one, in blocks.

Changes of the whole matrix by a removal are recorded as columns, and applied by one matrix product
per block of removals. Until then only the diagonal is updated, and single columns are computed from
the records.

Rows are rows of a matrix; removed units keep theirs until :meth:`compact`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

__all__ = ["BLOCK", "Compaction", "Inverse", "Products", "products_of"]

BLOCK = 96

# With at most this many columns of U a product U U^T is held as U.
_FEW = 48

# Columns per block, so that the records stay in a core's cache until they are applied.
_AT_ONCE = 128


class Compaction(NamedTuple):
    """Compaction of *left* remaining rows: rows *movers* take the places *free*."""

    left: int
    free: np.ndarray
    movers: np.ndarray

    @classmethod
    def to(cls, stays: np.ndarray) -> Compaction:
        """Compaction to the rows for which *stays* is true."""
        left = int(np.count_nonzero(stays))
        return cls(left, np.flatnonzero(~stays[:left]), left + np.flatnonzero(stays[left:]))

    def square(self, matrix: np.ndarray) -> np.ndarray:
        """Remaining rows and columns of *matrix*, as a view; the rest is overwritten."""
        matrix[self.free] = matrix[self.movers]
        matrix[:, self.free] = matrix[:, self.movers]
        return matrix[: self.left, : self.left]

    def rows(self, matrix: np.ndarray) -> np.ndarray:
        """Remaining rows of *matrix*, as a view; the rest is overwritten."""
        matrix[self.free] = matrix[self.movers]
        return matrix[: self.left]


class Inverse:
    """Inverse of a positive definite matrix; removing a row is a downdate.

    ``G^-1 -= g g^T / g_j`` with ``g = (G^-1)_:j``, noted as ``G^-1 - V V^T``.

    Attributes:
        diagonal: current diagonal elements of all rows; 0 or less for dependent rows.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self._matrix = matrix
        self._noted = np.empty((len(matrix), BLOCK))
        self._count = 0
        self._look()

    def _look(self) -> None:
        self.diagonal = np.diagonal(self._matrix).copy()

    def remove(self, row: int) -> np.ndarray:
        """Remove *row*, and return its g / g_j."""
        count = self._count
        noted = self._noted[:, :count]
        # One vector at a time: BLAS shares small products of matrices among threads, which
        # wait long for each other on a busy machine.
        column = self._matrix[row] - noted @ noted[row]  # symmetric: a row is a column
        pivot = max(float(column[row]), 1e-300)
        share: np.ndarray = column / pivot
        np.divide(column, math.sqrt(pivot), out=self._noted[:, count])
        self._count += 1
        self.diagonal -= column * share
        return share

    def compact(self, to: Compaction) -> None:
        self._matrix = to.square(self._matrix)
        self._noted = to.rows(self._noted)
        noted = self._noted[:, : self._count]
        _subtract(self._matrix, noted, noted)
        self._count = 0
        self._look()


class Products(Protocol):
    """Products W = U U^T of all rows of a matrix U, of which only the diagonal is used.

    Losing row j there with best replacement by the others is ``U -= (g / g_j) u_j^T``.
    """

    diagonal: np.ndarray
    """float64."""

    def energy(self, gram: np.ndarray) -> float:
        """The trace of U^T *gram* U."""

    def remove(self, row: int, share: np.ndarray) -> None:
        """Remove *row*; *share* is its g / g_j."""

    def compact(self, to: Compaction) -> None:
        """Move the remaining rows together."""


def products_of(outgoing: np.ndarray) -> Products:
    """Products of U = *outgoing*, in the network's precision."""
    outgoing = outgoing.astype(np.float32)
    return _AsFactor(outgoing) if outgoing.shape[1] <= _FEW else _AsMatrix(outgoing)


class _AsFactor:
    """Held as U."""

    def __init__(self, outgoing: np.ndarray) -> None:
        self._rows = outgoing.astype(np.float64)
        self._look()

    def _look(self) -> None:
        self.diagonal = np.einsum("ij,ij->i", self._rows, self._rows)

    def energy(self, gram: np.ndarray) -> float:
        return float(np.einsum("ij,ij->", gram @ self._rows, self._rows))

    def remove(self, row: int, share: np.ndarray) -> None:
        self._rows -= np.multiply.outer(share, self._rows[row])
        self._look()

    def compact(self, to: Compaction) -> None:
        self._rows = to.rows(self._rows)
        self._look()


class _AsMatrix:
    """Products held as W, with updates ``W - A B^T - B A^T``, A and B interleaved."""

    def __init__(self, outgoing: np.ndarray) -> None:
        self._matrix = outgoing @ outgoing.T
        self._noted = np.empty((len(outgoing), 2 * BLOCK), np.float32)
        self._count = 0
        self._look()

    def _look(self) -> None:
        self.diagonal = np.diagonal(self._matrix).astype(np.float64)

    def energy(self, gram: np.ndarray) -> float:
        return float(np.einsum("ij,ij->", gram, self._matrix))

    def remove(self, row: int, share: np.ndarray) -> None:
        at = 2 * self._count
        noted = self._noted[:, :at]
        column = self._matrix[row] - noted @ _swapped(noted[row : row + 1])[0]
        other = column.astype(np.float64)
        other -= 0.5 * other[row] * share
        self._noted[:, at], self._noted[:, at + 1] = share, other
        self._count += 1
        self.diagonal -= 2 * share * other

    def compact(self, to: Compaction) -> None:
        self._matrix = to.square(self._matrix)
        self._noted = to.rows(self._noted)
        noted = self._noted[:, : 2 * self._count]
        _subtract(self._matrix, noted, _swapped(noted))
        self._count = 0
        self._look()


def _swapped(pairs: np.ndarray) -> np.ndarray:
    """Columns 1, 0, 3, 2, ..."""
    rows, columns = pairs.shape
    return pairs.reshape(rows, columns // 2, 2)[:, :, ::-1].reshape(rows, columns)


def _subtract(matrix: np.ndarray, columns: np.ndarray, others: np.ndarray) -> None:
    """Subtract columns others^T from *matrix* in place."""
    for at in range(0, len(matrix), _AT_ONCE):
        matrix[at : at + _AT_ONCE] -= columns[at : at + _AT_ONCE] @ others.T
