"""A vector and a version in one message."""

from __future__ import annotations

import numpy as np

__all__ = ["blank", "packed", "unpacked"]


def packed(vector: np.ndarray, version: int) -> np.ndarray:
    """One vector of the dtype of *vector*, float32 or float64, with *version* bit by bit behind."""
    return np.concatenate([vector, np.array([version], np.int64).view(vector.dtype)])


def unpacked(parcel: np.ndarray) -> tuple[np.ndarray, int]:
    """What :func:`packed` was given; the vector as a view."""
    words = _words(parcel.dtype)
    version = np.ascontiguousarray(parcel[-words:]).view(np.int64)
    return parcel[:-words], int(version[0])


def blank(count: int, dtype: np.dtype) -> np.ndarray:
    """A buffer in which a parcel of *count* elements can arrive."""
    return np.empty(count + _words(dtype), dtype)


def _words(dtype: np.dtype) -> int:
    """How many elements a version takes."""
    return np.dtype(np.int64).itemsize // dtype.itemsize
