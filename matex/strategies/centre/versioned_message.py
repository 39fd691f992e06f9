"""Messages of a vector and the version of the centre that it belongs to."""

from __future__ import annotations

import numpy as np

__all__ = ["empty_message", "pack", "unpack"]


def pack(vector: np.ndarray, version: int) -> np.ndarray:
    """Message of *vector* (float32 or float64), followed by the bits of *version*."""
    return np.concatenate([vector, np.array([version], np.int64).view(vector.dtype)])


def unpack(message: np.ndarray) -> tuple[np.ndarray, int]:
    """Vector (a view) and version of a *message* from :func:`pack`."""
    words = _version_elements(message.dtype)
    version = np.ascontiguousarray(message[-words:]).view(np.int64)
    return message[:-words], int(version[0])


def empty_message(count: int, dtype: np.dtype) -> np.ndarray:
    """Buffer for a message with *count* elements of *dtype*."""
    return np.empty(count + _version_elements(dtype), dtype)


def _version_elements(dtype: np.dtype) -> int:
    """Number of elements of *dtype* that hold a version."""
    return np.dtype(np.int64).itemsize // dtype.itemsize
