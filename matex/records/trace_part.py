"""A rank's part of the trace: times of its steps, appended to a file of its own."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matex.records.shared_files.line_file import LineFile
from matex.records.step_report import Interval, StepReport
from matex.records.thinning import Thinning

__all__ = ["STEP", "TracePart", "part_name"]

#: Name of the slices of steps.
STEP = "step"

# Interval at which slices go to the file, and later the fraction of time that it may cost.
_LEAST_S = 1.0
_PART = 1e-3


def part_name(rank: int) -> str:
    """File name of the part of original rank *rank*."""
    return f"rank-{rank:04d}.trace"


class _TraceSlice(NamedTuple):
    name: str
    number: int
    every: int
    began: float
    ended: float
    intervals: dict[str, tuple[Interval, ...]]


class TracePart:
    """Times of steps and calls; local. In a step it reads a clock and appends to a list.

    All steps interrupted by a death are kept, and every k-th other one, where k doubles: see
    :class:`matex.records.thinning.Thinning`. They are written every second, later every thousandth
    of the elapsed time, and before this rank ends itself. A line has the Unix time ``begin_s``; its
    other times are whole microseconds. Lines that cannot be written are kept, and written later.

    Args:
        path: file to append to; None records nothing.
        complain: function called with one line, at the first failed write.
        clock: function that returns the time in seconds, on the clock of step reports.
    """

    def __init__(
        self,
        path: Path | None,
        complain: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._path = path
        self._complain = complain
        self._clock = clock
        self._file: LineFile | None = None
        self._complained = False
        self._started = clock()
        self._next = self._started + _LEAST_S
        self._steps = Thinning()
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._call_thinning: defaultdict[str, Thinning] = defaultdict(Thinning)
        self._samples: list[_TraceSlice] = []

    def step(self, number: int, report: StepReport) -> None:
        """Note a finished step.

        Args:
            number: training step.
        """
        if self._path is None:
            return
        now = self._clock()
        if self._steps.keeps(number) or report.death_cost is not None:
            self._samples.append(_sample_of(number, self._steps.every, report, now))
        if now >= self._next:
            self.flush()

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Context of work that the trace shows as a slice *name*, such as a validation."""
        if self._path is None:
            yield
            return
        began = self._clock()
        yield
        number = self._calls[name]
        self._calls[name] += 1
        thinning = self._call_thinning[name]
        if thinning.keeps(number):
            every = thinning.every
            self._samples.append(_TraceSlice(name, number, every, began, self._clock(), {}))

    def flush(self) -> None:
        """Append the new slices to the file."""
        if self._path is None:
            return
        now = self._clock()
        self._next = now + max(_LEAST_S, _PART * (now - self._started))
        samples, self._samples = self._samples, []
        if not samples:
            return
        unix = time.time() - now
        try:
            self._opened(self._path).append(_record_of(sample, unix) for sample in samples)
        except OSError as error:
            self._samples = samples + self._samples
            if not self._complained:
                self._complained = True
                self._complain(f"{self._path} cannot be written: {error.strerror}")

    def _opened(self, path: Path) -> LineFile:
        if self._file is None:
            self._file = LineFile(path)
        elif self._file.is_removed:
            self._file.make_again()
        return self._file


def _sample_of(number: int, every: int, report: StepReport, now: float) -> _TraceSlice:
    times = report.times
    if times is None:
        return _TraceSlice(STEP, number, every, now - report.step_s, now, {})
    intervals = {"read": times.read, "exchange": times.exchanges}
    ended = times.began + report.step_s
    if report.death_cost is not None:
        intervals["interrupted"] = ()
    return _TraceSlice(STEP, number, every, times.began, ended, intervals)


def _record_of(sample: _TraceSlice, unix: float) -> dict[str, Any]:
    """Line of *sample*; *unix* is the Unix time at which its clock was 0."""
    began = sample.began
    return {
        "name": sample.name,
        "number": sample.number,
        "every": sample.every,
        "begin_s": round(unix + began, 6),
        "us": _us(sample.ended - began),
        **{
            name: [[_us(begin - began), _us(end - begin)] for begin, end in intervals]
            for name, intervals in sample.intervals.items()
        },
    }


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
