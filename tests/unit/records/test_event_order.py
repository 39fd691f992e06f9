"""Events belong to the start that they name, whatever the clocks of hosts say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from matex.launcher.exit_report import last_start
from matex.launcher.restarts import members_of
from matex.records.event_order import in_order, newest_start
from matex.records.events import EVENTS, Event, EventLog, read_events
from matex.records.starts import job_times, starts_of


def event(time_s: float, rank: int, name: str, **more: Any) -> Event:
    return {"time_s": time_s, "rank": rank, "event": name, **more}


def two_starts(late_s: float, *, numbered: bool) -> list[Event]:
    """The events of two starts on two hosts, of which the second's clock is *late_s* behind."""
    found = []
    for number, begun in ((1, 1000.0), (2, 1020.0)):
        own = {"start": number} if numbered else {}
        if number > 1:
            found.append(event(begun - 10, -1, "restart", **own))
        found.append(event(begun, 0, "start", host="a", **own))
        found.append(event(begun - late_s, 1, "start", host="b", **own))
    return found


@pytest.mark.parametrize("late_s", [-30.0, 0.0, 5.0, 30.0])
def test_a_clock_that_differs_puts_no_event_into_another_start(late_s: float) -> None:
    events = in_order(reversed(two_starts(late_s, numbered=True)))
    first, second = starts_of(events)
    assert {e["rank"] for e in first.events} == {e["rank"] for e in second.events} == {0, 1}
    assert members_of(last_start(events)) == {0: ("a", ""), 1: ("b", "")}
    assert newest_start(events) == 2
    assert sorted(job_times(events)) == sorted([1000.0, 1000.0 - late_s])


@pytest.mark.parametrize("number", [{}, {"start": None}, {"start": "2"}, {"start": True}])
def test_events_without_a_number_are_of_the_last_start_before_them(number: dict[str, Any]) -> None:
    events = [{**one, **number} for one in two_starts(1.0, numbered=False)]
    assert in_order(reversed(events)) == sorted(events, key=lambda one: one["time_s"])
    assert [len(start.events) for start in starts_of(in_order(events))] == [2, 2]
    assert newest_start(events) == 2
    assert newest_start([]) == 1


def test_a_run_that_an_earlier_version_began_is_numbered_on() -> None:
    begun = two_starts(1.0, numbered=False)
    events = [
        *begun,
        event(2000.0, -1, "continued", start=newest_start(begun) + 1),
        event(1990.0, 0, "start", host="a", start=3),
    ]
    starts = starts_of(in_order(events))
    assert [len(start.events) for start in starts] == [2, 2, 1]
    assert newest_start(events) == 3


def test_the_job_is_known_again_after_a_clock_was_set_back() -> None:
    events = two_starts(0.0, numbered=True)
    back = [event(500.0, -1, "restart", start=3), event(510.0, 0, "start", host="a", start=3)]
    assert job_times(in_order([*events, *back])) == job_times(in_order(events)) == [1000.0, 1000.0]


def test_a_launcher_counts_the_starts_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    launcher = EventLog(path, -1, start=1)
    for wanted in (1, 2):
        EventLog(path, 0, start=launcher.start).write("start", pid=1)
        assert launcher.start == wanted
        launcher.write("restart", number=wanted)
    EventLog(path, 0).write("start", pid=1)
    assert [e.get("start") for e in read_events(path)] == [1, 2, 2, 3, None]
