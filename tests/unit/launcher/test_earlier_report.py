"""Files in the report directory of a run that begins: only an earlier run's are removed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from matex.errors import InputError
from matex.launcher.earlier_report import claim
from matex.launcher.preparing import prepare
from matex.records.curve_files import is_curve_file, new_curve_file
from matex.records.events import EVENTS, EventLog, give_room
from matex.records.launcher_protocol.heartbeat_file import FILE
from matex.records.launcher_protocol.resize_request import RESIZE
from matex.records.rank_files import files_of_ranks
from matex.records.scalars import TENSORBOARD
from matex.records.summary import FAULTS, SUMMARY
from matex.report.trace import TRACE

NAMES = (EVENTS, SUMMARY, FAULTS, TRACE, FILE, RESIZE, "rank-0000.log", "rank-12345.trace")
# Of TensorFlow's own writer in this version, and in the first.
OF_KERAS = (f"events.out.tfevents.{int(time.time())}.host.77.0.v2", "events.out.tfevents.17.host")


def content(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_of_no_run_are_named_and_stay(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"event": "mine", "rank": 0}\n')
    (tmp_path / TENSORBOARD).mkdir()
    (tmp_path / TENSORBOARD / new_curve_file()).write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError) as refused:
        prepare(tmp_path, None)
    assert str(refused.value) == (
        "the report directory must be empty or hold an earlier report. Received: "
        f"{tmp_path} has {name}, which is not of a report; name another directory"
    )
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", [*NAMES, TENSORBOARD, ".room-for-the-summary"])
@pytest.mark.parametrize("has_report", [True, False])
def test_what_is_in_the_way_is_named_before_anything_is_removed(
    name: str, has_report: bool, tmp_path: Path
) -> None:
    if has_report:
        prepare(tmp_path, None)
        give_room(tmp_path)
        EventLog(tmp_path / "aside", -1).write("started")
        (tmp_path / "aside").rename(tmp_path / (EVENTS if name != EVENTS else "events.old"))
    (tmp_path / name).touch() if name == TENSORBOARD else (tmp_path / name).mkdir()
    other = SUMMARY if name != SUMMARY else TRACE
    if has_report or name != ".room-for-the-summary":
        (tmp_path / other).write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError, match=f"the report directory must .* Received: .*/{name}"):
        prepare(tmp_path, None)
    assert content(tmp_path) == before


def test_files_by_other_names_are_left_beside_a_report(tmp_path: Path) -> None:
    curves = tmp_path / TENSORBOARD
    (curves / "train").mkdir(parents=True)
    others = [tmp_path / "notes.txt", tmp_path / "rank-1-notes.log", tmp_path / "rank-7.trace"]
    others += [curves / "notes.txt", curves / "train" / new_curve_file()]
    others += [curves / name for name in OF_KERAS]
    for path in others:
        path.write_text("mine")
    before = content(tmp_path)
    for _ in range(2):  # where there is no report yet, and where there is one
        prepare(tmp_path, None)
        EventLog(tmp_path / EVENTS, -1).write("started")
        (tmp_path / "rank-0000.log").write_text("a line")
        (curves / new_curve_file()).write_text("points")
    prepare(tmp_path, None)
    give_room(tmp_path)
    assert content(tmp_path) == before


def test_a_run_that_was_killed_early_is_known(tmp_path: Path) -> None:
    prepare(tmp_path, None)
    for name in NAMES[1:]:  # without events
        (tmp_path / name).touch()
    prepare(tmp_path, None)
    give_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ranks_without_a_launcher_that_were_killed_early_are_known(tmp_path: Path) -> None:
    claim(tmp_path)
    (tmp_path / "rank-0001.log").touch()
    before = content(tmp_path)
    claim(tmp_path)  # of ranks, which keep what is there
    assert content(tmp_path) == before
    prepare(tmp_path, None)
    assert not (tmp_path / "rank-0001.log").exists()


def test_events_after_a_line_that_a_full_disk_cut_off_are_known(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_text('{"time_s": 17.0, "ra\n')
    EventLog(tmp_path / EVENTS, 0).write("epoch", epoch=0)
    prepare(tmp_path, None)
    assert not (tmp_path / EVENTS).exists()


def test_curves_behind_a_link_stay(tmp_path: Path) -> None:
    report, shared = tmp_path / "report", tmp_path / "shared"
    prepare(report, None)
    shared.mkdir()
    (shared / new_curve_file()).touch()
    (report / TENSORBOARD).symlink_to(shared)
    prepare(report, None)
    assert len(list(shared.iterdir())) == 1


def test_names_of_curves_and_of_ranks_are_told_from_others(tmp_path: Path) -> None:
    assert is_curve_file(new_curve_file())
    assert not any(map(is_curve_file, OF_KERAS))
    for name in ("rank-0003.log", "rank-12345.log", "rank-3.log", "rank-0001-old.log"):
        (tmp_path / name).touch()
    assert [*files_of_ranks(tmp_path, ".log")] == [3, 12345]
