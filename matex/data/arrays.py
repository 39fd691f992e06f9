"""Tables with rows by index for the arrays that ``fit`` accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import h5py
import numpy as np

from matex.data.hdf5 import rows_of
from matex.data.hdf5_types import described, memory_type
from matex.data.rows import Memory
from matex.errors import InputError, Unsupported

__all__ = ["ClassWeights", "Table", "as_table"]


@runtime_checkable
class Table(Protocol):
    """Equal rows along the first axis, which ``fit`` can take by row number.

    Example:
        >>> isinstance(data.as_table(np.zeros((3, 2)), "x"), data.Table)
        True
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows together."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value."""

    @property
    def costly(self) -> bool:
        """Whether reading may wait for a disk or decode something."""

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Read rows. Local.

        Args:
            indices: row numbers, int64, in any order, none twice.

        Returns:
            Fresh array of the rows in that order.
        """


class _Cast:
    """The rows of another table as *dtype*."""

    def __init__(self, table: Table, dtype: np.dtype[Any]) -> None:
        self._table = table
        self.shape = table.shape
        self.dtype = dtype
        self.costly = table.costly

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self._table.rows(indices).astype(self.dtype, copy=False)


class ClassWeights:
    """A weight per row, by the row's class, as with ``class_weight`` of fit.

    Args:
        y: class numbers, shape (rows,) or (rows, 1), or one-hot rows (rows, classes).
        weights: weight by class number; missing classes have weight 1.
    """

    def __init__(self, y: Table, weights: Mapping[int, float], dtype: np.dtype[Any]) -> None:
        self._y = y
        self.costly = y.costly
        self._classes = np.array(sorted(weights), np.int64)
        self._weights = np.array([weights[c] for c in self._classes], dtype)
        self.shape = y.shape[:1]
        self.dtype = dtype

    def rows(self, indices: np.ndarray) -> np.ndarray:
        y = self._y.rows(indices)
        one_hot = y.ndim > 1 and y.shape[-1] != 1
        classes = np.argmax(y, -1) if one_hot else np.rint(y.reshape(len(indices)))
        places = np.searchsorted(self._classes, classes).clip(max=len(self._classes) - 1)
        known = self._classes[places] == classes
        return np.where(known, self._weights[places], self.dtype.type(1))


def as_table(source: Any, name: str, *, floatx: str = "float32") -> Table:
    """Table of a value that a script passes to fit. Local.

    Args:
        source: table (all that :func:`matex.data.open` gives), ``h5py.Dataset``, or array-like,
            with at least one axis.
        name: name of the value for the user, in messages.
        floatx: dtype as which floating point is read, "float32" by default.

    Returns:
        Table; the source itself if it has that dtype.

    Raises:
        Unsupported: not an array, or of a dtype that cannot be exchanged.
        InputError: no rows at all.
        DataError: an ``h5py.Dataset`` some of whose values cannot be read.

    Example:
        >>> table = data.as_table(np.arange(6.0).reshape(3, 2), "x")
        >>> table.rows(np.array([2, 0])).tolist(), table.dtype.name
        ([[4.0, 5.0], [0.0, 1.0]], 'float32')
    """
    table = _table_of(source, name)
    dtype = np.dtype(table.dtype)
    if dtype.kind == "f":
        dtype = np.dtype(floatx)
    elif dtype.kind not in "iub":
        raise Unsupported(
            f"fit on several ranks wants {name} of numbers. Received: {name}.dtype={dtype}"
        )
    if not table.shape or table.shape[0] == 0:
        raise InputError(f"{name} must have at least one row. Received: shape {table.shape}")
    return table if table.dtype == dtype else _Cast(table, dtype)


def _table_of(source: Any, name: str) -> Table:
    if isinstance(source, h5py.Dataset):  # before Table asks for its dtype, which it may not have
        stored = source.id.get_type()
        if memory_type(stored) is None:
            raise Unsupported(
                f"fit on several ranks wants {name} of numbers. Received: {described(stored)}"
            )
        return rows_of(source) if source.shape else Memory(np.asarray(source))
    if isinstance(source, Table):
        return source
    if not hasattr(source, "__array__") or not hasattr(source, "shape"):
        raise Unsupported(
            f"fit on several ranks wants {name} as a NumPy array, an HDF5 data set or rows of "
            f"matex.data.open. Received: {name}={type(source).__module__}."
            f"{type(source).__name__}; turn it into an array first"
        )
    return Memory(np.asarray(source))
