"""Some of the rows of a data set in memory, by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Form", "RowStore"]

_GROWTH = 1.25


class Form(NamedTuple):
    """Shape and dtype of one row of a table."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class RowStore:
    """Rows of several tables, stored together by number. Local.

    Args:
        samples: number of all rows; row numbers are below it.
        forms: shape and dtype of a row of each table.
        capacity: initial capacity in rows; it grows if necessary.

    ``most`` is how many rows it has held at a time.
    """

    def __init__(self, samples: int, forms: Sequence[Form], *, capacity: int = 0) -> None:
        self.forms = forms
        self._where = np.full(samples, -1, np.int64)
        self._arrays = [np.empty((capacity, *form.shape), form.dtype) for form in forms]
        self._free = np.arange(capacity)[::-1].copy()  # a stack, of which so many are left:
        self._left = capacity
        self.most = 0

    @property
    def count(self) -> int:
        """Number of rows that are held."""
        return len(self._free) - self._left

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, with the capacity for rows that are not held yet."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows that are held, rising."""
        return np.flatnonzero(self._where >= 0)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Whether each of *rows* is held: bool, of the shape of *rows*."""
        return np.asarray(self._where[rows] >= 0)

    def take(self, rows: np.ndarray) -> list[np.ndarray]:
        """Copies of *rows*, which must be stored, from each table; they stay stored."""
        places = self._where[rows]
        return [array[places] for array in self._arrays]

    def put(self, rows: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Store the distinct *rows* with the content of *arrays*, replacing earlier content."""
        new = rows[~self.holds(rows)]
        self._reserve(len(new))
        self._left -= len(new)
        self._where[new] = self._free[self._left : self._left + len(new)]
        for mine, given in zip(self._arrays, arrays, strict=True):
            mine[self._where[rows]] = given
        self.most = max(self.most, self.count)

    def drop(self, rows: np.ndarray) -> None:
        """Remove the distinct *rows*; rows that are not stored are ignored."""
        held = rows[self.holds(rows)]
        self._free[self._left : self._left + len(held)] = self._where[held]
        self._left += len(held)
        self._where[held] = -1

    def _reserve(self, count: int) -> None:
        """Make place for *count* rows more."""
        if count <= self._left:
            return
        before = len(self._free)
        after = max(self.count + count, int(before * _GROWTH))
        for i, array in enumerate(self._arrays):
            self._arrays[i] = np.empty((after, *array.shape[1:]), array.dtype)
            self._arrays[i][:before] = array
        self._free = np.concatenate(
            [self._free[: self._left], np.arange(before, after), np.zeros(before - self._left, int)]
        )
        self._left += after - before
