"""Vectors whose sum over the ranks tells whether they were equal up to rounding. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["TAIL", "are_equal", "are_finite", "cut", "packed"]

TAIL = 3  # numbers behind the gradients: square, not finite, one

# Relative excess of the mean square over the square of the mean: equal gradients differ by
# rounding, far below it; gradients of different data by far more.
_TOLERANCE = 1e-5

_BLOCK = 1 << 16


def are_finite(gradients: Sequence[np.ndarray]) -> bool:
    """Whether no number of *gradients* is infinite or NaN."""
    return all(bool(np.isfinite(part).all()) for part in gradients)


def packed(gradients: Sequence[np.ndarray]) -> np.ndarray:
    """Vector of *gradients* and of the tail by which their sum is judged."""
    flat = np.concatenate([part.reshape(-1) for part in gradients])
    spoiled = not are_finite([flat])
    square = 0.0 if spoiled else _square(flat)
    return np.concatenate([flat, np.array([square, spoiled, 1.0], flat.dtype)])


def cut(flat: np.ndarray, gradients: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Vector *flat* in parts of the shapes of *gradients*."""
    pieces = np.split(flat, np.cumsum([part.size for part in gradients])[:-1])
    return [p.reshape(part.shape) for p, part in zip(pieces, gradients, strict=True)]


def are_equal(total: np.ndarray) -> bool:
    """Whether *total* sums vectors that are equal up to rounding, or all not finite."""
    count, spoiled = float(total[-1]), float(total[-2])
    if spoiled:
        return spoiled == count
    square = float(total[-TAIL]) / count
    excess = square - _square(total[:-TAIL] / count)
    return abs(excess) <= _TOLERANCE * square + 1e-30


def _square(vector: np.ndarray) -> float:
    blocks = range(0, vector.size, _BLOCK)
    return sum(float(np.dot(b, b)) for b in (vector[i : i + _BLOCK] for i in blocks))
