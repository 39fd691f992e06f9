"""A vector and the version of the centre that it belongs to, in one message."""

from __future__ import annotations

import numpy as np

__all__ = ["empty_message", "pack", "unpack"]


def pack(vector: np.ndarray, version: int) -> np.ndarray:
    """Message of *vector*, float32 or float64, and behind it *version*, bit by bit."""
    return np.concatenate([vector, np.array([version], np.int64).view(vector.dtype)])


def unpack(message: np.ndarray) -> tuple[np.ndarray, int]:
    """Vector, as a view, and version of a *message* that :func:`pack` made."""
    words = _version_elements(message.dtype)
    version = np.ascontiguousarray(message[-words:]).view(np.int64)
    return message[:-words], int(version[0])


def empty_message(count: int, dtype: np.dtype) -> np.ndarray:
    """Buffer in which a message with *count* elements of *dtype* can arrive."""
    return np.empty(count + _version_elements(dtype), dtype)


def _version_elements(dtype: np.dtype) -> int:
    """Number of elements of *dtype* that hold a version."""
    return np.dtype(np.int64).itemsize // dtype.itemsize
