"""Statistics of data, by which data sets are distinguished up to rounding. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["are_same_data", "sketch"]

# Data computed from a model's predictions are rounded differently on another number of ranks.
_CLOSE = 1e-3


def sketch(samples: int, leaves: Iterable[np.ndarray]) -> list[float]:
    """Numbers for :func:`are_same_data`, fit for JSON.

    Args:
        samples: number of rows of the data.
        leaves: arrays of the same few rows.
    """
    return [float(samples), *(number for leaf in leaves for number in _numbers_in(leaf))]


def are_same_data(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two sketches are of the same data; True if one of them is empty."""
    if not one or not other:
        return True
    if len(one) != len(other) or one[0] != other[0]:
        return False
    return bool(np.allclose(one[1:], other[1:], _CLOSE, _CLOSE, equal_nan=True))


def _numbers_in(rows: np.ndarray) -> list[float]:
    """Two numbers per row of *rows*, or a checksum for text."""
    if rows.dtype.kind not in "fiub":
        return [float(zlib.crc32(repr(row.tolist()).encode())) for row in rows]
    if not rows.size:
        return []
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    return [*flat.mean(1).tolist(), *np.abs(flat).mean(1).tolist()]
