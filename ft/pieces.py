"""Long buffers in pieces: an MPI call takes fewer than 2^31 elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ft.errors import UsageError

__all__ = ["most_elements", "pieces"]

# Bytes of one call; equal on all ranks.
_MOST_BYTES = 1 << 30


def most_elements(itemsize: int, *, arrays: int = 1) -> int:
    """Number of elements that one call may move of each array. Pure.

    Args:
        itemsize: bytes of one element.
        arrays: number of arrays that the call moves, 1 by default.
    """
    return max(1, _MOST_BYTES // (arrays * max(1, itemsize)))


def pieces(array: np.ndarray, *, arrays: int = 1) -> Iterator[np.ndarray]:
    """The parts of a contiguous *array*, flat and in order; *array* itself if it is short. Pure.

    Every rank makes as many of an array of the same shape and dtype. The array has arrived only
    when all of them have: an operation ends after its last piece.

    Args:
        array: contiguous array.
        arrays: number of arrays of this size that one call moves, 1 by default.

    Raises:
        UsageError: *array* is long and not contiguous.
    """
    most = most_elements(array.itemsize, arrays=arrays)
    if array.size <= most:
        yield array
        return
    if not array.flags.c_contiguous:
        raise UsageError(f"long buffers must be contiguous. Received: strides={array.strides}")
    flat = array.reshape(-1)
    for at in range(0, flat.size, most):
        yield flat[at : at + most]
