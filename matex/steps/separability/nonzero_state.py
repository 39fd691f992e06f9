"""Values other than 0 for the variables that are 0, in a trial of a step.

A factor that warms up from 0, a gate or a last layer that begins at 0: what they multiply shows in
no gradient before the first updates, and a trial of the variables as they are proves nothing of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from matex.steps.graphs.graph_inspection import read_variable, variables_in, write_variable

__all__ = ["nonzero_state"]

_LEAST, _MOST = 0.2, 0.6  # of floats: positive, as some go into roots and logarithms
_COUNT = 10_000  # of counters: beyond a usual warm-up
_PERIOD = 1021  # values before they repeat, a prime


@contextlib.contextmanager
def nonzero_state(
    function: Any, *, optimizers: Iterable[Any], metrics: Iterable[Any]
) -> Iterator[None]:
    """Context in which variables of *function* that are 0 have other values. Local.

    Args:
        function: concrete function of the step.
        optimizers: optimizers of the step. Their counters of updates are beyond a warm-up, their
            other variables stay.
        metrics: states of metrics, which stay.
    """
    of_optimizers = [variable for each in optimizers for variable in each.variables]
    counters = {id(v.value.handle) for v in of_optimizers if v.name == "iteration"}
    kept = {id(v.value.handle) for v in (*of_optimizers, *metrics)} - counters
    before: list[tuple[Any, Any]] = []
    try:
        for handle, dtype in variables_in(function):
            value = None if id(handle) in kept else read_variable(handle, dtype)
            other = None if value is None else _other(value, counts=id(handle) in counters)
            if other is not None:
                before.append((handle, value))
                write_variable(handle, other)
        yield
    finally:
        for handle, value in before:
            write_variable(handle, value)


def _other(value: Any, *, counts: bool) -> Any | None:
    """Value in the place of *value*; None if that may stay."""
    if counts:
        return value + np.asarray(_COUNT, value.dtype)
    if value.size == 0 or np.any(value):
        return None
    if value.dtype.kind == "b" and value.ndim == 0:
        return np.ones_like(value)
    if value.dtype.kind in "iu":
        return np.full_like(value, _COUNT) if value.ndim == 0 and value.itemsize >= 4 else None
    if value.dtype.kind not in "fV":  # V: bfloat16, whose name NumPy may not know
        return None
    pattern = np.random.default_rng(_PERIOD).uniform(_LEAST, _MOST, _PERIOD)
    return np.resize(pattern, value.shape).astype(value.dtype)
