"""Sign of life that ranks write for a supervisor: one short file.

It holds the number of the running step and a counter that grows while any rank lives. The reader
compares contents, not times, so clocks of hosts may differ.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["FILE", "HeartbeatFile", "Sign", "read_sign"]

FILE = "progress"


class Sign(NamedTuple):
    """Step and counter; step -1 if no rank has written yet."""

    step: int = -1
    beats: int = 0


# The first signs are all written, so that a run which fails soon after each start is seen to fail
# at the same step; later ones at intervals, so that they cost this fraction of the time. The
# intervals are bounded: a rank whose write was held up once must not seem dead for minutes.
_ALL = 200
_PART = 1e-3
_MOST_S = 2.0


class HeartbeatFile:
    """Heartbeat of one rank; local. Nothing is written without a *directory*."""

    def __init__(
        self, directory: Path | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._file = -1
        self._beats = 0
        self._clock = clock
        self._next = 0.0
        self._directory = directory
        if directory is not None:
            self._file = _opened(directory)

    def beat(self, step: int) -> None:
        """Record that this rank lives and makes *step*; a failed write is ignored."""
        self._beats += 1
        if self._file < 0:
            return
        began = self._clock()
        if self._beats > _ALL and began < self._next:
            return
        with contextlib.suppress(OSError):
            self._write(b"%019d %019d\n" % (step, self._beats))
        ended = self._clock()
        self._next = ended + min((ended - began) / _PART, _MOST_S)

    def _write(self, content: bytes) -> None:
        if not os.fstat(self._file).st_nlink and self._directory is not None:  # it was removed
            self._directory.mkdir(parents=True, exist_ok=True)
            before, self._file = self._file, _opened(self._directory)
            os.close(before)
        os.pwrite(self._file, content, 0)


def _opened(directory: Path) -> int:
    return os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def read_sign(directory: Path) -> Sign:
    """Newest sign of life in *directory*; an empty one if it cannot be read."""
    try:
        step, beats = (directory / FILE).read_text().split()
        return Sign(int(step), int(beats))
    except (OSError, ValueError):  # none yet, or unreachable, or half-written
        return Sign()
