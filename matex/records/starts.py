"""The starts of one job, separated in its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matex.records.events import Event

__all__ = ["AGAIN", "Start", "job_of", "starts_of"]

#: The events with which all ranks are started again: after a loss, for the sake of those that
#: are missing, or in another run of the command that continues the job.
AGAIN = ("restart", "grow", "continued")


class Start(NamedTuple):
    """The events of one start of the ranks, and what began it, None for the first."""

    begun: Event | None
    events: list[Event]

    @property
    def seconds(self) -> float:
        """Seconds from its first event to its last, 0 without one."""
        return self.events[-1]["time_s"] - self.events[0]["time_s"] if self.events else 0.0


def starts_of(events: Iterable[Event]) -> list[Start]:
    """All starts in *events*, which are in order of time."""
    starts = [Start(None, [])]
    for event in events:
        if event["event"] in AGAIN:
            starts.append(Start(event, []))
        else:
            starts[-1].events.append(event)
    return starts


def job_of(events: Iterable[Event]) -> float:
    """Time by which the job of *events* is known: when its ranks first met, 0.0 before that."""
    return min((event["time_s"] for event in events if event["event"] == "start"), default=0.0)
