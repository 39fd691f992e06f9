"""Memory for the vectors of an exchange, and checked copies into it. Local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex.exchange.layout import ALIGNMENT

__all__ = ["aligned", "copied", "owned"]

_BLOCK = 1 << 16  # 256 KB of float32: well inside a core's own cache


def copied(target: np.ndarray, source: np.ndarray) -> bool:
    """Copy *source* to the contiguous *target*; return whether all of it is finite.

    Block by block, so that the check finds the copied block in the cache.
    """
    target, source = target.reshape(-1), source.reshape(-1)
    finite = True
    with np.errstate(over="ignore"):  # a sum of squares that overflows is checked again
        for start in range(0, target.size, _BLOCK):
            block = target[start : start + _BLOCK]
            np.copyto(block, source[start : start + _BLOCK])
            finite = finite and bool(np.isfinite(np.dot(block, block)) or np.isfinite(block).all())
    return finite


def aligned(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Vector of zeros, aligned so that TensorFlow takes it without a copy."""
    vector = _memory(size, dtype)
    vector[:] = 0
    return vector


def owned(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies of *parts* for TensorFlow, where a variable adopts the memory of what it is assigned.

    An exchange writes the next sums to its own memory.
    """
    copies = [_memory(part.size, part.dtype).reshape(part.shape) for part in parts]
    for copy, part in zip(copies, parts, strict=True):
        np.copyto(copy, part)
    return copies


def _memory(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Vector of any content, aligned."""
    nbytes = size * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes].view(dtype)
