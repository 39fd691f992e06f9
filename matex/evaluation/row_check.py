"""Check whether what a model's metrics count of rows adds up. Local."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable

__all__ = ["check_parts"]

_ROWS = 32
_CLOSE, _CLOSE_IN_HALF = 1e-4, 1e-2


def check_parts(model: Any, step: Callable[[Any], None], batch: Any) -> None:
    """Check that states of metrics add up over parts of *batch*, and over batches.

    A function of the script's own that gives one number for a batch, such as its F1 score, does
    not, nor does the largest error. The states are as before afterwards.

    Args:
        model: model of the metrics.
        step: function that evaluates rows, which changes metrics alone.
        batch: some rows, of which at most 32 are used.

    Raises:
        NotShareable: a state does not add up.
    """
    leaves = keras_hooks.flatten(batch)
    rows = min(keras_hooks.row_count(leaves[0]), _ROWS)
    if rows < 2:
        return
    metrics = model.metrics_variables
    before = [variable.numpy() for variable in metrics]

    def reset() -> None:
        model.reset_metrics()
        for variable in metrics:
            if variable.numpy().any():
                raise NotShareable(f"{variable.path} does not begin with zero")

    def counted(lo: int, hi: int) -> list[np.ndarray]:
        cut = [keras_hooks.cut_rows(leaf, lo, hi) for leaf in leaves]
        step(keras_hooks.pack_as(batch, cut))
        return [variable.numpy().astype(np.float64) for variable in metrics]

    first = max(1, rows * 3 // 8)  # no half: parts alike could hide what they count
    found = []
    try:
        for span in ((0, first), (first, rows), (0, rows)):
            reset()
            found.append(counted(*span))
        found.append(counted(0, rows))  # a second time, without a reset
    finally:
        for variable, value in zip(metrics, before, strict=True):
            variable.assign(value)
    close = _CLOSE_IN_HALF if "16" in str(model.compute_dtype) else _CLOSE
    for variable, one, other, whole, twice in zip(metrics, *found, strict=True):
        size = close * max(np.abs(each).max(initial=0) for each in (one, other, whole))
        for sum_of, counted_at_once in ((one + other, whole), (2 * whole, twice)):
            if not np.allclose(sum_of, counted_at_once, 0, size, equal_nan=True):
                raise NotShareable(f"{variable.path} does not add up what it counts in rows")
