"""The report directory of a run that begins, and of one that another job continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from matex.launcher.exit_report import Logs, last_start, this_job
from matex.launcher.preparing import prepare
from matex.records.curve_files import new_curve_file
from matex.records.events import EVENTS, EventLog, give_room, read_events
from matex.records.scalars import TENSORBOARD
from matex.records.summary import SUMMARY
from matex.records.trace_part import part_name
from matex.report.trace import TRACE


@pytest.fixture
def earlier(tmp_path: Path) -> tuple[Path, Path]:
    """The report and the checkpoint directory of a run that was stopped."""
    report, saved = tmp_path / "report", tmp_path / "saved"
    report.mkdir()
    saved.mkdir()
    (saved / "step-000000007.h5").touch()
    log = EventLog(report / EVENTS, 0)
    log.write("epoch", epoch=0)
    log.write("checkpoint", tier="files", step=7, path=str(saved / "step-000000007.h5"))
    (report / SUMMARY).write_text("{}")
    (report / "rank-0000.log").write_text("Fatal Python error: Aborted\n")
    (report / part_name(0)).touch()
    (report / TRACE).touch()
    (report / TENSORBOARD).mkdir()
    (report / TENSORBOARD / new_curve_file()).touch()
    return report, saved


def names(report: Path) -> list[str]:
    return [event["event"] for event in read_events(report / EVENTS)]


def test_what_is_continued_keeps_its_history(earlier: tuple[Path, Path]) -> None:
    report, saved = earlier
    prepare(report, saved)
    assert names(report) == ["epoch", "checkpoint", "continued"]
    assert last_start(read_events(report / EVENTS)) == []
    assert this_job(read_events(report / EVENTS)) == []
    for kept in ("rank-0000.log", part_name(0), TENSORBOARD):
        assert (report / kept).exists(), kept
    assert not (report / SUMMARY).exists()


def test_an_unfinished_last_line_is_cut_off(earlier: tuple[Path, Path]) -> None:
    report, saved = earlier
    with (report / EVENTS).open("a") as file:
        file.write('{"time_s": 17.0, "ra')
    prepare(report, saved)
    assert names(report) == ["epoch", "checkpoint", "continued"]


@pytest.mark.parametrize("other", ["none", "elsewhere", "gone"])
def test_another_run_begins_anew(earlier: tuple[Path, Path], other: str) -> None:
    report, saved = earlier
    if other == "gone":
        (saved / "step-000000007.h5").unlink()
    prepare(report, {"none": None, "elsewhere": saved.parent, "gone": saved}[other])
    give_room(report)
    assert list(report.iterdir()) == []


def test_logs_tell_of_the_newest_start_only(earlier: tuple[Path, Path]) -> None:
    report, _ = earlier
    logs = Logs(report)
    assert logs.ends() == {0: "Fatal Python error: Aborted\n"}
    logs.begin()
    assert logs.ends() == {0: ""}
    with (report / "rank-0000.log").open("a") as file:
        file.write("more")
    (report / "rank-0001.log").write_text("new")
    assert logs.ends() == {0: "more", 1: "new"}
