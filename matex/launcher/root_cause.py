"""Causes of a run's end, from the events and logs of its ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from matex.records.events import Event
from matex.records.lost_ranks import OWN_ERRORS

__all__ = ["End", "crash_in", "root_cause", "survived"]

# Python begins the report of a process that a signal ends with this, and the reason follows.
_FATAL = "Fatal Python error: "
_CRASH_LINES = 15


class End(NamedTuple):
    """End of a rank; *step* is None if no training step had been made."""

    rank: int
    reason: str
    step: int | None = None
    where: str = ""
    cause: str = ""

    def __str__(self) -> str:
        place = f" at step {self.step}" if self.step is not None else ""
        # The message of a syntax error names its place itself.
        where = f" ({self.where})" if self.where and self.where not in self.reason else ""
        return f"rank {self.rank}{place}: {self.reason}{where}"

    @property
    def is_own(self) -> bool:
        """Whether the cause was an error of the script."""
        return self.cause in OWN_ERRORS


def survived(events: Iterable[Event], logs: Mapping[int, str]) -> list[End]:
    """Ranks that ended in error while other ranks went on.

    Ranks ended by an error of the script come last.
    """
    events = list(events)
    lost = _lost(events)
    ends = [end for end in [*_errors(events), *_crashes(logs)] if end.rank in lost]
    return sorted(ends, key=lambda end: end.is_own)


def root_cause(events: Iterable[Event], logs: Mapping[int, str]) -> End | None:
    """First error that the other ranks did not survive; None if unknown.

    Args:
        events: events of all ranks, in order of time.
        logs: the end of each rank's log.
    """
    events = list(events)
    lost = _lost(events)
    injected = [
        End(event["rank"], f"the injected fault {event['fault']}", event["step"])
        for event in events
        if event["event"] == "fault" and event["lethal"]
    ]
    known = [*_errors(events), *_crashes(logs), *injected]
    return next((end for end in known if end.rank not in lost), None)


def crash_in(log: str) -> str:
    """Traceback that Python wrote to *log* when a signal ended its process; "" if none."""
    _, found, crash = log.rpartition(_FATAL)
    return "\n".join(crash.splitlines()[:_CRASH_LINES]) if found else ""


def _lost(events: list[Event]) -> set[int]:
    kinds = ("recovered", "spare-lost")
    return {rank for event in events if event["event"] in kinds for rank in event["lost"]}


def _errors(events: list[Event]) -> list[End]:
    return [
        End(
            event["rank"],
            event["reason"],
            event.get("step"),
            event.get("where", ""),
            event.get("cause", ""),
        )
        for event in events
        if event["event"] == "death"
    ]


def _crashes(logs: Mapping[int, str]) -> list[End]:
    crashes = ((rank, crash_in(log)) for rank, log in sorted(logs.items()))
    return [End(rank, crash.partition("\n")[0]) for rank, crash in crashes if crash]
