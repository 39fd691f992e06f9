"""A rank that takes a place begins from the leader's files of that moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from matex.files.handover import follow, take_over
from matex.files.ledger import Ledger
from matex.files.publish import publish, publish_open
from matex.files.scratch import Scratch
from matex.files.view import FileView
from matex.files.writing import to_write


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[tuple[FileView, FileView]]:
    """The leader's view, and that of a newcomer."""
    (tmp_path / "changes").mkdir()
    (tmp_path / "files").mkdir()
    scratches = [Scratch(), Scratch()]
    views = [
        FileView(scratch, Ledger(str(tmp_path / "changes"), rank), leads=rank == 0)
        for rank, scratch in enumerate(scratches)
    ]
    yield views[0], views[1]
    for scratch in scratches:
        scratch.remove()


def write(view: FileView, path: Path, text: str, mode: str = "a") -> None:
    change = "append" if mode == "a" else "overwrite" if view.leads else "replace"
    with open(to_write(view, str(path), change), mode) as file:  # type: ignore[arg-type] # noqa: PTH123
        file.write(text)


def read(view: FileView, path: Path) -> str | None:
    place = view.place(str(path))
    return None if place is None else Path(place).read_text()


def hand_over(ranks: tuple[FileView, FileView]) -> None:
    take_over(ranks[1])
    follow(ranks[0], [0, 1])


@pytest.mark.parametrize("times", [1, 2])
def test_later_changes_of_the_leader_are_not_seen(
    ranks: tuple[FileView, FileView], tmp_path: Path, times: int
) -> None:
    leader, newcomer = ranks
    paths = [tmp_path / "files" / name for name in ("added", "whole", "gone", "unseen", "later")]
    added, whole, gone, unseen, later = paths
    for view in ranks:
        for path in (added, whole, gone):
            write(view, path, "begun ")
    for number in range(times):
        write(leader, added, f"{number} ")
        write(leader, whole, f"{number}", "w")
        write(leader, unseen, f"{number} ")
        if gone.exists():
            leader.claim(str(gone), "replace")
            gone.unlink()
        hand_over(ranks)
    write(leader, added, "ahead")
    write(leader, whole, "ahead", "w")
    write(leader, unseen, "ahead")
    write(leader, later, "ahead")
    counts = "".join(f"{number} " for number in range(times))
    seen = [read(newcomer, path) for path in paths]
    assert seen == [f"begun {counts}", f"{times - 1}", None, counts, None]
    publish(newcomer)
    for path in (added, unseen):
        write(newcomer, path, "on")
    assert added.read_text() == f"begun {counts}on"
    assert unseen.read_text() == f"{counts}on"
    assert not gone.exists()


@pytest.mark.parametrize("mode", ["a", "w"])
def test_an_open_file_goes_on_behind_the_leader_s_content(
    ranks: tuple[FileView, FileView], tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "files" / "log"
    opened = [
        open(to_write(view, str(path), "append"), mode)  # noqa: PTH123, SIM115
        for view in ranks
    ]
    for view, file in zip(ranks, opened, strict=True):
        view.writers.add(file)
        file.write("begun ")
    opened[0].write("alone ")
    opened[0].flush()
    hand_over(ranks)
    for file in opened:
        file.write("both ")
        file.flush()
    publish(ranks[1])
    opened[1].write("on")
    opened[1].close()
    publish_open(ranks[1])
    opened[0].close()
    assert path.read_text() == "begun alone both on"


def test_an_open_file_of_a_form_that_cannot_be_continued_is_not_replaced(
    ranks: tuple[FileView, FileView], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "files" / "data.h5"
    beginning = b"\x89HDF\r\n\x1a\n"
    places = [to_write(view, str(path), "overwrite") for view in ranks]
    opened = [os.open(place, os.O_RDWR | os.O_CREAT) for place in places]
    for descriptor in opened:
        os.write(descriptor, beginning)
    os.write(opened[0], b"of the leader")
    hand_over(ranks)
    publish(ranks[1])
    os.write(opened[1], b"other")
    publish_open(ranks[1])
    for descriptor in opened:
        os.close(descriptor)
    publish_open(ranks[1])
    assert path.read_bytes() == beginning + b"of the leader"
    assert f"{path} stays as the last leader left it" in capsys.readouterr().out
