"""Limits on the frequency of progress notes: often at first, at negligible cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from matex.records.events import Event
from matex.records.starts import starts_of
from matex.records.step_report import StepReport

__all__ = ["ProgressThrottle", "newest_told", "own_timings"]

_LEAST_S = 0.1
_PART = 1e-3

# Each rank notes its own timings this often, but all ranks together at most ten times a second.
_OWN_S = 1.0


class ProgressThrottle:
    """Collects steps between two notes. Local.

    Notes are 0.1 s apart, later a thousandth of the elapsed time: a run of a minute has some 600,
    one of a day 8000.

    Args:
        clock: function that returns seconds.
        least_s: initial interval between two notes, seconds, 0.1 by default.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, least_s: float = _LEAST_S
    ) -> None:
        self._clock = clock
        self._least_s = least_s
        self._started = self._last = clock()
        self._clear()

    def _clear(self) -> None:
        self._steps = 0
        self._step_s = self._exchange_s = 0.0
        self._logs: Mapping[str, Any] = {}

    def step(self, report: StepReport) -> None:
        """Add a finished step."""
        self._steps += 1
        self._step_s += report.step_s
        self._exchange_s += report.exchange_s
        self._logs = report.logs

    @property
    def has_steps(self) -> bool:
        """Whether steps have finished since the last note."""
        return self._steps > 0

    def is_due(self) -> bool:
        """Whether a note is due now."""
        now = self._clock()
        return now - self._last >= max(self._least_s, _PART * (now - self._started))

    def take(self) -> dict[str, Any]:
        """Means over the steps since the last note (at least one), and Keras's loss."""
        loss = self._logs.get("loss")
        note = {
            "steps": self._steps,
            "step_s": self._step_s / self._steps,
            "exchange_s": self._exchange_s / self._steps,
            "loss": None if loss is None else float(loss),
        }
        self._last = self._clock()
        self._clear()
        return note


def own_timings(ranks: int, clock: Callable[[], float] = time.monotonic) -> ProgressThrottle:
    """Throttle of each rank's own timings: one per second, fewer for many *ranks*."""
    return ProgressThrottle(clock, least_s=max(_OWN_S, _LEAST_S * ranks))


def newest_told(events: Iterable[Event]) -> int | None:
    """Newest step that leaders told since the ranks started last; None if they told none. Pure."""
    told = None
    for event in starts_of(events)[-1].events:
        if event["event"] == "resumed":  # also where no launcher tells of a start
            told = None
        elif event["event"] == "progress":
            told = event["step"]
    return told
