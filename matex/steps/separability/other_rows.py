"""Rows made of those of a batch, for further trials of a step.

A trial proves nothing of what its rows do not show: a sum over the rows of a class of which there
is none, a mean over classes where all rows are of one, a penalty on values above a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.keras_hooks.rows import shortened
from matex.steps.separability.check_rows import FIRST

__all__ = ["larger_rows", "nudged_rows", "rows_of_one_length", "shorter_rows", "varied_rows"]

_LARGER, _OTHER = 8, 0.4
_NUDGE = 1 + 2.0**-20


def varied_rows(rows: Any, one_for_all: Collection[int] = ()) -> Any | None:
    """Copy of *rows* in which each value that all rows share differs in every second row. Local.

    Such a value becomes 0, and 0 becomes 1. It shows terms that add up only while a column is the
    same in all rows. None if no value is.

    Args:
        rows: structure of eager tensors; sparse and ragged ones are kept.
        one_for_all: places in the flat structure of tensors that repeat one number, which is
            replaced in all rows if it is 0.
    """

    def varied(place: int, values: np.ndarray) -> np.ndarray:
        if place in one_for_all:
            is_zero = values.dtype.kind == "f" and not values.any()
            return np.full_like(values, _OTHER) if is_zero else values
        every_second = (np.arange(len(values)) % 2 == 1).reshape(-1, *[1] * (values.ndim - 1))
        replaced = every_second & (values == values[:1]).all(0)
        return np.where(replaced, (values[:1] == 0).astype(values.dtype), values)

    return _made(rows, varied)


def larger_rows(rows: Any, one_for_all: Collection[int] = ()) -> Any | None:
    """*rows* with all continuous values 8 times as large; None if there is none. Local.

    Args:
        rows, one_for_all: see :func:`varied_rows`; values repeated in all rows are kept.
    """

    return _scaled(rows, one_for_all, _LARGER)


def shorter_rows(rows: Any, one_for_all: Collection[int] = ()) -> Any | None:
    """*rows* of which all past the first three have half their length; None if none has a length.

    Ragged rows and texts are often filled up to the longest of their batch, which matters where a
    part of the batch has another longest row than the whole. Local.

    Args:
        rows, one_for_all: see :func:`varied_rows`.
    """
    return _shorter(rows, one_for_all, alike=False)


def rows_of_one_length(rows: Any, one_for_all: Collection[int] = ()) -> Any | None:
    """*rows* of which all past the first three are as long as the shortest of them. Local.

    So they are filled up in the whole batch only. It is None if they have the same length already.

    Args:
        rows, one_for_all: see :func:`varied_rows`.
    """
    return _shorter(rows, one_for_all, alike=True)


def _shorter(rows: Any, one_for_all: Collection[int], *, alike: bool) -> Any | None:
    flat = keras_hooks.flatten(rows)
    cut = [
        tensor if place in one_for_all else shortened(tensor, FIRST, alike=alike)
        for place, tensor in enumerate(flat)
    ]
    if all(one is other for one, other in zip(flat, cut, strict=True)):
        return None
    return keras_hooks.pack_as(rows, cut)


def nudged_rows(rows: Any) -> Any | None:
    """*rows* with all continuous values larger by a millionth; None if there is none. Local.

    What changes by them is known no better than by rounding of some operations.

    Args:
        rows: see :func:`varied_rows`.
    """
    return _scaled(rows, (), _NUDGE)


def _scaled(rows: Any, one_for_all: Collection[int], factor: float) -> Any | None:
    def scaled(place: int, values: np.ndarray) -> np.ndarray:
        whole_numbers = values.dtype.kind != "f" or (values == np.round(values)).all()
        if place in one_for_all or whole_numbers:
            return values
        return (values * factor).astype(values.dtype)

    return _made(rows, scaled)


def _made(rows: Any, by: Callable[[int, np.ndarray], np.ndarray]) -> Any | None:
    flat, changed = [], False
    for place, tensor in enumerate(keras_hooks.flatten(rows)):
        values = tensor.numpy() if keras_hooks.is_tensor(tensor) else None
        if values is None or values.dtype.kind not in "fiub" or not values.size:
            flat.append(tensor)
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            other = by(place, values).astype(values.dtype)
        changed = changed or not np.array_equal(other, values, equal_nan=values.dtype.kind == "f")
        flat.append(keras_hooks.constant(other))
    return keras_hooks.pack_as(rows, flat) if changed else None
