"""Times that a rank may be silent before it is given up. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

__all__ = ["COMPILERS", "MEASURED_STEPS", "STOPPED_S", "WORK_S", "patience", "step_limit"]

# Outside of steps, and before steps are measured: validation, callbacks, tracing, reading.
WORK_S = 600.0

# For a stopped process, as seen by its neighbours.
STOPPED_S = 10.0

MEASURED_STEPS = 20

# Code in which a step is traced: the first step, and steps with new shapes, as after a death.
COMPILERS = ("tensorflow/python/framework/func_graph.py",)

# A step on a host with four busy processes a core takes some five times as long, and a file
# system may hold a read back for half a minute.
_TIMES, _LEAST_S = 100, 60.0


def step_limit(step_s: Iterable[float]) -> float:
    """Limit of a step's duration, seconds, from measured ones: a hundred times the median, but at
    least 60 s and at most 600."""
    return min(WORK_S, max(_LEAST_S, _TIMES * statistics.median(step_s)))


def patience(place: int, size: int) -> float:
    """Ratio of the wait limit to the work limit, for the rank at *place* of *size*.

    It goes from 3 for the last rank and spares to 6 for the leader: if all ranks wait, for a call
    that never ends, one of them gives up first, and its end lets the others repair.
    """
    return 3.0 + 3.0 * max(0, size - 1 - place) / max(1, size - 1)
