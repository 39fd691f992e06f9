"""The order of events: by the start of the ranks, and within it by time. Pure.

Clocks of hosts differ, and are set: the time of an event does not tell to which start it belongs,
so each event has the number of its start. Events of earlier versions, and those of ranks that were
started without ``matex run``, have none: they belong to the last start before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["AGAIN", "START", "in_order", "newest_start"]

#: Events at which all ranks are started again: after a loss, for missing ranks, or in another run
#: of the command that continues the job.
AGAIN = ("restart", "grow", "continued")

#: Field with the number of the start, from 1.
START = "start"

_AnEvent = TypeVar("_AnEvent", bound=Mapping[str, Any])


def in_order(events: Iterable[_AnEvent]) -> list[_AnEvent]:
    """All *events* in the order of their starts; each start begins with what announces it."""
    numbered = _numbered(events)
    numbered.sort(key=lambda pair: (pair[0], pair[1]["event"] not in AGAIN))
    return [event for _, event in numbered]


def newest_start(events: Iterable[Mapping[str, Any]]) -> int:
    """Number of the newest start in *events*, from 1."""
    return max((number for number, _ in _numbered(events)), default=1)


def _numbered(events: Iterable[_AnEvent]) -> list[tuple[int, _AnEvent]]:
    """Number of the start of each event, and the event, in order of time."""
    number, found = 1, []
    for event in sorted(events, key=lambda event: float(event["time_s"])):
        own = event.get(START)
        if isinstance(own, bool) or not isinstance(own, int) or own < 1:
            own = None
        if event["event"] in AGAIN:
            number = number + 1 if own is None else max(number, own)
        found.append((number if own is None else own, event))
    return found
