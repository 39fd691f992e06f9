"""Rows as all readers return them: of equal shape, and read when they are indexed."""

from __future__ import annotations

import abc
import math
import operator
from typing import Any

import numpy as np

from matex.errors import InputError

__all__ = ["Joined", "Memory", "RowChoice", "RowRange", "Rows", "runs"]


_BLOCK_BYTES = 8 << 20  # read at once where everything is wanted


class Rows(abc.ABC):
    """Equal rows along the first axis of stored data; reads only the requested ones.

    Goes into ``model.fit`` as it is: shared among ranks by rows, and in plain Keras as an
    array, which then is read whole. An index reads like NumPy's and returns a fresh array.

    Attributes:
        costly: whether reading may wait for a disk or decode something, so that reading
            ahead is worth a thread.
        is_encoded: whether a row is an image that is stored encoded, see :meth:`encoded`.
        cut_to: (height, width) that such images are cut and scaled to; None where all have
            one size.

    Example:
        >>> class Squares(data.Rows):
        ...     shape, dtype = (1000,), np.dtype("int64")
        ...
        ...     def rows(self, indices):
        ...         return indices**2
        >>> squares = Squares()
        >>> squares[-2:].tolist(), len(squares)
        ([996004, 998001], 1000)
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    costly: bool = True
    is_encoded: bool = False
    cut_to: tuple[int, int] | None = None

    @abc.abstractmethod
    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Read rows. Local.

        Args:
            indices: row numbers, int64, in any order.

        Returns:
            Fresh, contiguous array of the rows in that order; one of images may be read-only.

        Raises:
            DataError: the file is damaged there; the message names file and row.
        """

    def encoded(self, row: int) -> tuple[str, bytes]:
        """Read the encoded image of a row. Local.

        Args:
            row: row number.

        Returns:
            Its origin, for messages, and its bytes.

        Raises:
            InputError: rows are not encoded images.
            DataError: it cannot be read; the message names file and row.
        """
        raise InputError(f"encoded images are wanted. Received: row {row} of {self!r}")

    def choose(self, numbers: np.ndarray) -> Rows:
        """Make rows of some of these; nothing is read. Local.

        Args:
            numbers: row numbers, int64, at least one, in any order.

        Returns:
            The chosen rows, in that order.

        Raises:
            InputError: a number is none of a row.

        """
        return RowChoice(self, np.asarray(numbers, np.int64))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("rows of a file become an array by copying only. Received: copy=False")
        everything = np.empty(self.shape, self.dtype if dtype is None else dtype)
        if not self.size:  # however many rows of no values there are
            return everything
        row_bytes = self.size * self.dtype.itemsize // max(1, len(self))
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        for lo in range(0, len(self), step):
            everything[lo : lo + step] = self.rows(np.arange(lo, min(lo + step, len(self))))
        return everything

    def __getitem__(self, key: Any) -> np.ndarray:
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if first is Ellipsis or isinstance(first, tuple):
            return np.asarray(self)[key]
        if isinstance(first, slice):
            found = self._writable(np.arange(*first.indices(len(self))))
            return found[(slice(None), *rest)]
        if isinstance(first, list | np.ndarray):
            return self._writable(self._numbers(np.asarray(first)))[(slice(None), *rest)]
        one: np.ndarray = self._writable(self._numbers(np.array([operator.index(first)])))[0]
        return one[rest]

    def _writable(self, numbers: np.ndarray) -> np.ndarray:
        found = self.rows(numbers)
        return found if found.flags.writeable else found.copy()

    def _numbers(self, wanted: np.ndarray) -> np.ndarray:
        """Row numbers of an index of the first axis, as in NumPy."""
        if wanted.dtype == bool and wanted.shape == self.shape[:1]:
            return np.flatnonzero(wanted)
        numbers = wanted.astype(np.int64, casting="same_kind") if wanted.size else wanted[:0]
        outside = numbers[(numbers < -len(self)) | (numbers >= len(self))]
        if numbers.ndim != 1 or outside.size:
            raise IndexError(
                f"row numbers must be below {len(self)}. Received: {outside[:1] or wanted.shape}"
            )
        return np.where(numbers < 0, numbers + len(self), numbers).astype(np.int64)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} {self.dtype}>"


class Memory(Rows):
    """An array as rows."""

    costly = False

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self._array[indices])


class RowRange(Rows):
    """Rows [lo, hi) of other rows, read on demand."""

    def __init__(self, whole: Rows, lo: int, hi: int) -> None:
        if not 0 <= lo < hi <= len(whole):
            raise InputError(f"a part needs rows of the {len(whole)}. Received: [{lo}, {hi})")
        self._whole = whole
        self._lo = lo
        self.shape = (hi - lo, *whole.shape[1:])
        self.dtype = whole.dtype
        self.costly = whole.costly
        self.is_encoded = whole.is_encoded
        self.cut_to = whole.cut_to

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self._whole.rows(indices + self._lo)

    def encoded(self, row: int) -> tuple[str, bytes]:
        return self._whole.encoded(row + self._lo)


class RowChoice(Rows):
    """Selected rows of other rows, read on demand."""

    def __init__(self, whole: Rows, numbers: np.ndarray) -> None:
        if not len(numbers) or numbers.min() < 0 or numbers.max() >= len(whole):
            raise InputError(f"row numbers must be of [0, {len(whole)}). Received: {numbers}")
        self._whole = whole
        self._numbers_of = numbers
        self.shape = (len(numbers), *whole.shape[1:])
        self.dtype = whole.dtype
        self.costly = whole.costly
        self.is_encoded = whole.is_encoded
        self.cut_to = whole.cut_to

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self._whole.rows(self._numbers_of[indices])

    def encoded(self, row: int) -> tuple[str, bytes]:
        return self._whole.encoded(int(self._numbers_of[row]))


class Joined(Rows):
    """Rows of several files, concatenated."""

    def __init__(self, parts: list[Rows]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])
        self.dtype = parts[0].dtype
        self.costly = any(part.costly for part in parts)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        result = np.empty((len(indices), *self.shape[1:]), self.dtype)
        which = np.searchsorted(self._ends, indices, side="right")
        for number in np.unique(which).tolist():
            mine = which == number
            begin = int(self._ends[number]) - len(self._parts[number])
            result[mine] = self._parts[number].rows(indices[mine] - begin)
        return result


def runs(ascending: np.ndarray) -> list[tuple[int, int, int]]:
    """Runs of neighbours in rising row numbers: ``(place, first row, one past the last row)``.

    *place* is where the run begins in *ascending*; numbers may repeat.
    """
    if not len(ascending):
        return []
    starts = np.flatnonzero(np.diff(ascending, prepend=ascending[0] - 2) > 1)
    ends = np.append(starts[1:], len(ascending)) - 1
    return list(
        zip(
            starts.tolist(),
            ascending[starts].tolist(),
            (ascending[ends] + 1).tolist(),
            strict=True,
        )
    )
