"""The starts of one job, found in its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matex.records.event_order import AGAIN
from matex.records.events import Event

__all__ = ["Start", "job_times", "starts_of", "stop_signals"]


class Start(NamedTuple):
    """Events of one start of the ranks, and the event that began it, None for the first."""

    begun: Event | None
    events: list[Event]

    @property
    def seconds(self) -> float:
        """Seconds from its first event to its last; 0 without events."""
        return self.ended - self.events[0]["time_s"] if self.events else 0.0

    @property
    def ended(self) -> float:
        """Unix time of its last event, seconds; 0 without events."""
        return float(self.events[-1]["time_s"]) if self.events else 0.0


def starts_of(events: Iterable[Event]) -> list[Start]:
    """All starts in *events*, given in the order in which they are read."""
    starts = [Start(None, [])]
    for event in events:
        if event["event"] in AGAIN:
            starts.append(Start(event, []))
        else:
            starts[-1].events.append(event)
    return starts


def stop_signals(events: Iterable[Event]) -> list[Event]:
    """Events of the signals that have asked the last start to stop; an earlier one had its own."""
    return [event for event in starts_of(events)[-1].events if event["event"] == "told"]


def job_times(events: Iterable[Event]) -> list[float]:
    """Times of which any identifies the job of *events*: at which its first ranks started.

    They stay the same over all later starts, also where a clock is set back.
    """
    return [event["time_s"] for event in starts_of(events)[0].events if event["event"] == "start"]
