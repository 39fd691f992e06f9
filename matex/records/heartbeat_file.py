"""The sign of life that ranks give and a supervisor looks for: one short file.

It holds the step that is being made and a count that rises as long as anybody lives. The
reader compares contents, never clocks, so hosts may disagree about the time.
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
    """Step -1: no rank has shown itself yet."""

    step: int = -1
    beats: int = 0


# The first ones are all written, so that a run which fails soon after each of its starts is seen
# to fail at the same step; later ones as seldom as makes them cost this part of the time.
_ALL = 200
_PART = 1e-3


class HeartbeatFile:
    """The pulse of one rank; local. Nothing is written without a *directory*."""

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
        """This rank lives, and makes *step*. Where that cannot be written, another beat may be."""
        self._beats += 1
        if self._file < 0:
            return
        began = self._clock()
        if self._beats > _ALL and began < self._next:
            return
        with contextlib.suppress(OSError):
            self._write(b"%019d %019d\n" % (step, self._beats))
        ended = self._clock()
        self._next = ended + (ended - began) / _PART

    def _write(self, content: bytes) -> None:
        if not os.fstat(self._file).st_nlink and self._directory is not None:  # it was removed
            self._directory.mkdir(parents=True, exist_ok=True)
            before, self._file = self._file, _opened(self._directory)
            os.close(before)
        os.pwrite(self._file, content, 0)


def _opened(directory: Path) -> int:
    return os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def read_sign(directory: Path) -> Sign:
    """The newest sign of life in *directory*; none where it cannot be read."""
    try:
        step, beats = (directory / FILE).read_text().split()
        return Sign(int(step), int(beats))
    except (OSError, ValueError):  # none yet, or out of reach, or seen half-written
        return Sign()
