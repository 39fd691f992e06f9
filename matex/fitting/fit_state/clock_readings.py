"""Numbers that a callback has read from a clock: they are of one process alone."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["ClockReadings"]

# Those whose readings are no small numbers, as the state of a callback may be: not processor time.
_CLOCKS = (time.time, time.perf_counter, time.monotonic)


class ClockReadings:
    """Tells readings of a clock of this process, since the object was made, from other numbers."""

    def __init__(self) -> None:
        self._first = [clock() for clock in _CLOCKS]

    def include(self, value: Any) -> bool:
        """Whether *value* is a number that a clock has shown meanwhile; local."""
        if not isinstance(value, float):
            return False
        now = [clock() for clock in _CLOCKS]
        return any(lo <= value <= hi for lo, hi in zip(self._first, now, strict=True))
