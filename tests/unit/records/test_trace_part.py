"""The part of the trace that a rank writes: which steps, when they are in the file, a full disk."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from matex.records.shared_files.line_file import read_lines
from matex.records.step_report import DeathCost, Interval, StepReport, StepTimes
from matex.records.thinning import LIMIT
from matex.records.trace_part import TracePart, part_name


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def report(began: float, step_s: float = 0.25, *, cost: DeathCost | None = None) -> StepReport:
    read = (Interval(began - 0.125, began), Interval(began, began + 0.0625))
    exchanges = (Interval(began + 0.125, began + 0.1875),)
    return StepReport(
        samples=8, planned=8, step_s=step_s, exchange_s=0.0625, death_cost=cost,
        times=StepTimes(began, read, exchanges),
    )  # fmt: skip


def test_a_line_has_the_times_of_a_step_and_comes_within_a_second(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / part_name(3)
    part = TracePart(path, pytest.fail, clock)
    part.step(0, report(100.25))
    assert not path.exists()
    clock.now = 101.5
    part.step(1, report(101.25))
    first, second = read_lines(path)
    assert (first["name"], first["number"], first["every"], first["us"]) == ("step", 0, 1, 250_000)
    assert first["read"] == [[-125_000, 125_000], [0, 62_500]]
    assert first["exchange"] == [[125_000, 62_500]]
    assert second["begin_s"] - first["begin_s"] == pytest.approx(1.0, abs=1e-5)
    assert abs(second["begin_s"] + 0.25 - time.time()) < 60
    part.step(2, report(101.5))
    assert len(read_lines(path)) == 2
    part.flush()
    assert [line["number"] for line in read_lines(path)] == [0, 1, 2]


def test_interrupted_steps_are_kept_whatever_is_left_out(tmp_path: Path) -> None:
    part = TracePart(tmp_path / "part", pytest.fail, Clock())
    for number in range(2 * LIMIT):
        cost = DeathCost(at_risk={1: 8}) if number == 2 * LIMIT - 1 else None
        part.step(number, report(100.0 + number, cost=cost))
    part.flush()
    lines = read_lines(tmp_path / "part")
    assert [line["number"] for line in lines[:3]] == [0, 1, 2]
    assert [line["number"] for line in lines[-3:]] == [
        2 * LIMIT - 4,
        2 * LIMIT - 2,
        2 * LIMIT - 1,
    ]
    assert [line["number"] for line in lines if "interrupted" in line] == [2 * LIMIT - 1]


def test_calls_and_steps_of_unknown_parts_have_their_length(tmp_path: Path) -> None:
    clock = Clock()
    part = TracePart(tmp_path / "part", pytest.fail, clock)
    with part.call("validation"):
        clock.now += 0.5
    part.step(0, StepReport(samples=8, planned=8, step_s=0.25, exchange_s=0.25))
    part.flush()
    call, step = read_lines(tmp_path / "part")
    assert (call["name"], call["us"]) == ("validation", 500_000)
    assert (step["name"], step["us"]) == ("step", 250_000)
    assert step["begin_s"] - call["begin_s"] == pytest.approx(0.25, abs=1e-5)


def test_what_cannot_be_written_is_said_once_and_written_later(tmp_path: Path) -> None:
    said: list[str] = []
    part = TracePart(tmp_path / "absent" / "part", said.append, Clock())
    for number in range(3):
        part.step(number, report(100.0))
        part.flush()
    (line,) = said
    assert "No such file" in line
    (tmp_path / "absent").mkdir()
    part.flush()
    assert [line["number"] for line in read_lines(tmp_path / "absent" / "part")] == [0, 1, 2]


def test_a_directory_that_is_gone_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "report" / "part"
    path.parent.mkdir()
    part = TracePart(path, pytest.fail, Clock())
    part.step(0, report(100.0))
    part.flush()
    shutil.rmtree(path.parent)
    part.step(1, report(101.0))
    part.flush()
    assert [line["number"] for line in read_lines(path)] == [1]


def test_without_a_file_nothing_is_recorded(tmp_path: Path) -> None:
    part = TracePart(None, pytest.fail)
    part.step(0, report(100.0))
    with part.call("validation"):
        pass
    part.flush()
    assert list(tmp_path.iterdir()) == []
