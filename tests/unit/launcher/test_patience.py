"""The time for which the launcher waits for ranks of which it hears nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkpoints
from matex.launcher.patience import (
    LEAVE_S,
    SPLIT_S,
    AwakeClock,
    Patience,
    Quiet,
    has_summary,
    signs_in,
)
from matex.records.launcher_protocol.heartbeat_file import FILE, HeartbeatFile
from matex.records.summary import SUMMARY


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_ranks_have_long_to_start_and_then_as_long_as_they_are_given(
    tmp_path: Path, clock: Clock
) -> None:
    patience = Patience(tmp_path, 50.0, clock)
    clock.now += 590
    assert patience.ends(several=False, split=False) == ""
    HeartbeatFile(tmp_path).beat(3)
    assert patience.ends(several=False, split=False) == ""
    clock.now += 49
    assert patience.ends(several=False, split=False) == ""
    clock.now += 2
    assert patience.ends(several=False, split=False) == "no sign of life for 50 s"


def test_ranks_that_lost_each_other_have_less(tmp_path: Path, clock: Clock) -> None:
    patience = Patience(tmp_path, None, clock)
    HeartbeatFile(tmp_path).beat(3)
    assert patience.ends(several=True, split=True) == ""
    clock.now += SPLIT_S + 1
    assert patience.ends(several=True, split=True) == "no sign of life for 40 s"


def test_time_in_which_the_launcher_stood_still_does_not_count(
    tmp_path: Path, clock: Clock
) -> None:
    patience = Patience(tmp_path, 10.0, AwakeClock(clock))
    HeartbeatFile(tmp_path).beat(3)
    assert patience.ends(several=False, split=False) == ""
    clock.now += 3600
    assert patience.ends(several=False, split=False) == ""
    for _ in range(6):
        clock.now += 1
        reason = patience.ends(several=False, split=False)
    assert reason == "no sign of life for 10 s"


@pytest.mark.parametrize("several", [False, True])
def test_after_the_summary_only_the_way_out_is_waited_for(
    tmp_path: Path, clock: Clock, several: bool
) -> None:
    """mpiexec waits for ever for the ranks of a host that it cannot reach."""
    patience = Patience(tmp_path, None, clock)
    HeartbeatFile(tmp_path).beat(3)
    assert patience.ends(several=several, split=False) == ""
    (tmp_path / SUMMARY).write_text("{}")
    assert patience.ends(several=several, split=False) == ""
    clock.now += SPLIT_S + 1
    HeartbeatFile(tmp_path).beat(4)  # of one who was left behind
    assert bool(patience.ends(several=several, split=False)) == several


def test_after_the_summary_of_a_run_that_lost_ranks_less_is_waited_for(
    tmp_path: Path, clock: Clock
) -> None:
    """They may be on a host that mpiexec cannot reach."""
    patience = Patience(tmp_path, None, clock)
    (tmp_path / SUMMARY).write_text('{"ranks_lost": [2]}')
    assert patience.ends(several=True, split=False) == ""
    clock.now += LEAVE_S + 1
    said = patience.ends(several=True, split=False)
    assert said == "no end of all ranks 10 s after the summary"


def test_a_directory_out_of_reach_is_silence(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / FILE).mkdir()  # reading it is an OSError other than that it is missing
    patience = Patience(tmp_path, 50.0, clock)
    clock.now += 601
    assert patience.ends(several=True, split=False) == "no sign of life for 600 s"
    assert not has_summary(tmp_path / ("x" * 300))  # so is this


def test_files_are_quiet_when_neither_steps_nor_writers_were_seen_for_so_long(
    tmp_path: Path, clock: Clock
) -> None:
    beat = HeartbeatFile(tmp_path)
    quiet = Quiet(lambda: signs_in(tmp_path, tmp_path), 40.0, clock)
    clock.now += 39
    assert not quiet.reached()
    beat.beat(3)
    assert not quiet.reached()
    clock.now += 39
    checkpoints.Fence(tmp_path, lambda: (1, 2)).check()  # another world writes
    assert not quiet.reached()
    clock.now += 39
    assert not quiet.reached()
    clock.now += 1
    assert quiet.reached()
