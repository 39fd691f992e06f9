"""The judge of cut networks sees what it is there to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ci.network.partition_observer import END_S, PAUSE_S, Times, problems, times

WHOLE = {
    "status": "finished",
    "resumable": False,
    "weights_hash": {"0": "aa", "1": "aa"},
    "samples_expected": 96,
    "samples_used": 96,
    "samples_lost": 0,
    "samples_repeated": 0,
}
QUICK = Times(pause=10.0, end=1.0)


def step(time: float, rank: int, *members: int, start: str = "a") -> dict[str, Any]:
    return {"time": time, "start": start, "rank": rank, "step": 1, "members": list(members)}


def wrote(time: float, rank: int, event: str = "checkpoint", **fields: Any) -> dict[str, Any]:
    return {"time_s": time, "rank": rank, "event": event, **fields}


TOGETHER = [step(1, 0, 0, 1, 2), step(1.1, 1, 0, 1, 2), step(1.2, 2, 0, 1, 2)]
SHRUNK = [*TOGETHER, step(2, 0, 0, 1), step(2.1, 1, 0, 1)]


def seen(
    notes: Sequence[dict[str, Any]] = SHRUNK,
    events: Sequence[dict[str, Any]] = (),
    summary: dict[str, Any] | None = WHOLE,
    status: int | None = 0,
    taken: Times = QUICK,
) -> str:
    return "; ".join(problems(notes, events, summary, status=status, taken=taken))


def test_one_world_that_goes_on_is_right() -> None:
    events = [wrote(1.3, 0), wrote(2.2, 0), wrote(2.3, 2, tier="memory"), wrote(9, 0, "finished")]
    assert seen(events=events) == ""


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param([*SHRUNK, step(3, 2, 2)], id="one aside"),
        pytest.param([*TOGETHER, step(2, 0, 0), step(3, 1, 1)], id="both small"),
    ],
)
def test_two_worlds_that_make_steps_are_seen(notes: list[dict[str, Any]]) -> None:
    assert "two worlds made steps" in seen(notes)


def test_a_start_that_goes_on_beside_the_next_is_seen() -> None:
    again = [step(5, 0, 0, 1, start="b")]
    assert seen([*SHRUNK, *again]) == ""
    assert "two starts made steps: rank 1 of start 1 of 2" in seen(
        [*SHRUNK, *again, step(6, 1, 0, 1)]
    )


@pytest.mark.parametrize(
    ("notes", "events"),
    [
        pytest.param(SHRUNK, [wrote(2.2, 0), wrote(2.4, 2)], id="a checkpoint"),
        pytest.param(SHRUNK, [wrote(2.2, 0, "finished"), wrote(3, 2, "finished")], id="a summary"),
        pytest.param(
            [*TOGETHER, step(5, 0, 0, start="b"), step(5.1, 1, 1, 2)],
            [wrote(5.05, 0), wrote(5.2, 1)],
            id="a former start",
        ),
    ],
)
def test_two_worlds_that_write_are_seen(
    notes: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    assert "two worlds wrote" in seen(notes, events)


def test_who_ends_a_write_before_the_others_have_written_is_one_world() -> None:
    assert seen(events=[wrote(2.2, 2), wrote(2.4, 0)]) == ""


def test_a_pause_or_an_end_that_takes_too_long_is_seen() -> None:
    assert "no step for" in seen(taken=Times(PAUSE_S + 1, 0))
    assert "no end for" in seen(taken=Times(0, END_S + 1))
    assert "after the launcher's end" in seen(taken=Times(0, -5))


def test_times_are_those_after_the_cut() -> None:
    notes = [step(1, 0, 0), step(50, 0, 0), step(62, 0, 0)]
    assert times(notes, cut_at=55, ended_at=65) == Times(pause=7, end=3)
    assert times(notes, cut_at=70, ended_at=75) == Times(pause=0, end=5)


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({}, 1, "status 1 for a run that finished"),
        ({}, None, "status None"),
        ({"status": "failed"}, 1, "not resumable"),
        ({"status": "stopped", "resumable": True}, 1, "status 1 for a run that stopped"),
        ({"weights_hash": {"0": "aa", "1": "bb"}}, 0, "not one hash"),
        ({"samples_used": 95}, 0, "95 of 96"),
        ({"samples_lost": 1}, 0, "1 lost"),
        ({"samples_repeated": 1}, 0, "1 repeated"),
    ],
)
def test_a_summary_that_is_not_right_is_seen(
    change: dict[str, Any], status: int | None, word: str
) -> None:
    assert word in seen(summary=WHOLE | change, status=status)
    assert seen(summary=None) == "no summary"


def test_a_run_that_failed_is_right_where_it_can_be_continued() -> None:
    assert seen(summary=WHOLE | {"status": "failed", "resumable": True}, status=1) == ""
