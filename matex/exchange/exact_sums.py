"""Sums of floating-point numbers whose bits no order of adding changes. Pure.

Every addend is rounded to a multiple of a unit that is coarse enough for the sum of all of them to
be exact in float64: then MPI may add them up in any order, on any number of ranks. The unit follows
from the largest magnitude among the addends, so it is the same whoever holds them. Of float32
numbers within 2^24 of the largest no bit is lost for up to 64 addends.

Demmel and Nguyen, Fast Reproducible Floating-Point Summation, ARITH 2013 (pre-rounding).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["MOST_ADDENDS", "add_rounded", "anchors", "tops"]

#: Most addends of a sum: more would leave a float32 number less than its 24 bits.
MOST_ADDENDS = 1 << 12

_BITS = 52  # of a float64's fraction
_SMALLEST = -900  # exponent of the smallest top: below it a unit could not be a float64


def tops(vector: np.ndarray, starts: Sequence[int]) -> np.ndarray:
    """The largest magnitude in each stretch of *vector*.

    Args:
        vector: addends, shape (n,); a NaN makes its stretch's top NaN.
        starts: index at which each stretch begins, ascending from 0; each has an element at least.

    Returns:
        Shape (stretches,), of the dtype of *vector*.
    """
    high = np.maximum.reduceat(vector, starts)
    low = np.minimum.reduceat(vector, starts)
    return np.maximum(high, -low)


def anchors(found: np.ndarray) -> np.ndarray:
    """The numbers that round addends to the unit of their stretch, as they are added and taken off.

    Args:
        found: :func:`tops` of all addends, shape (addends, stretches).

    Returns:
        Shape (stretches,), float64; NaN where a top is not finite.

    Raises:
        ValueError: there are more than :data:`MOST_ADDENDS`.
    """
    if len(found) > MOST_ADDENDS:
        raise ValueError(f"at most {MOST_ADDENDS} addends are wanted. Received: {len(found)}")
    largest = np.max(found, axis=0).astype(np.float64)
    finite = np.isfinite(largest)
    _, exponents = np.frexp(np.where(finite, largest, 0.0))
    spare = (len(found) - 1).bit_length() + 1
    units = np.maximum(exponents, _SMALLEST) + spare - _BITS
    return np.where(finite, np.ldexp(1.5, units + _BITS), np.nan)


def add_rounded(
    total: np.ndarray, addend: np.ndarray, starts: Sequence[int], found: np.ndarray
) -> None:
    """Add *addend*, rounded, to *total* in place.

    Args:
        total: float64, shape (n,): zeros, or sums of such addends.
        addend: numbers to add, shape (n,).
        starts: index at which each stretch begins, see :func:`tops`.
        found: :func:`anchors` of all addends, shape (stretches,).
    """
    ends = [*starts[1:], len(addend)]
    for start, end, anchor in zip(starts, ends, found, strict=True):
        rounded = addend[start:end] + anchor
        rounded -= anchor
        total[start:end] += rounded
