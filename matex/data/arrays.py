"""Rows by index from arrays in memory and from HDF5 data sets on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from matex.errors import InputError, Unsupported

__all__ = ["ClassWeights", "Table", "as_table"]


class Table(Protocol):
    """Equal rows along the first axis."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows *indices* (int64, any order, none twice) in that order; a fresh array. Local."""


class _Memory:
    def __init__(self, array: np.ndarray, dtype: np.dtype[Any]) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = dtype

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self._array[indices].astype(self.dtype, copy=False)


class _Hdf5:
    """Reads only the rows asked for. Contiguous data sets are mapped, others read row by row."""

    def __init__(self, dataset: Any, dtype: np.dtype[Any]) -> None:
        self._dataset = dataset
        self.shape = dataset.shape
        self.dtype = dtype
        offset = dataset.id.get_offset()
        self._mapped: np.ndarray | None = None
        if offset is not None and dataset.dtype.isnative and dataset.dtype.kind in "fiub":
            self._mapped = np.memmap(
                dataset.file.filename, dataset.dtype, "r", offset=offset, shape=dataset.shape
            )

    def rows(self, indices: np.ndarray) -> np.ndarray:
        if self._mapped is not None:
            return np.asarray(self._mapped[indices]).astype(self.dtype, copy=False)
        ascending = np.argsort(indices)  # the HDF5 library wants rising row numbers
        result = np.empty((len(indices), *self.shape[1:]), self.dtype)
        result[ascending] = self._dataset[indices[ascending]]
        return result


class ClassWeights:
    """One weight a row, by the row's class: what ``class_weight`` of fit means.

    Args:
        y: class numbers, shape (rows,) or (rows, 1), or one-hot rows (rows, classes).
        weights: class number -> weight; 1 for classes that are not in it.
    """

    def __init__(self, y: Table, weights: Mapping[int, float], dtype: np.dtype[Any]) -> None:
        self._y = y
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
    """Wrap an array-like or an ``h5py.Dataset``; floating point is read as *floatx*.

    Args:
        source: has at least one axis.
        name: what the user calls it, for messages.

    Raises:
        Unsupported: not an array, or of a dtype that cannot be exchanged.
        InputError: no rows at all.
    """
    is_hdf5 = type(source).__module__.partition(".")[0] == "h5py"
    if not is_hdf5 and not isinstance(source, np.ndarray):
        if not hasattr(source, "__array__") or not hasattr(source, "shape"):
            raise Unsupported(
                f"fit on several ranks wants {name} as a NumPy array or an HDF5 data set. "
                f"Received: {name}={type(source).__module__}.{type(source).__name__}; "
                "turn it into an array first"
            )
        source = np.asarray(source)
    dtype = np.dtype(source.dtype)
    if dtype.kind == "f":
        dtype = np.dtype(floatx)
    elif dtype.kind not in "iub":
        raise Unsupported(
            f"fit on several ranks wants {name} of numbers. Received: {name}.dtype={dtype}"
        )
    if not source.shape or source.shape[0] == 0:
        raise InputError(f"{name} must have at least one row. Received: shape {source.shape}")
    return _Hdf5(source, dtype) if is_hdf5 else _Memory(source, dtype)
