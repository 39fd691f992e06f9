"""Ledgers that several threads of a rank ask at once."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from matex.files.ledger import Ledger


def test_ledger_replaced_while_in_use(tmp_path: Path) -> None:
    """A thread that still asks the former ledger of a newcomer, whose file stays open."""
    former = Ledger(str(tmp_path), 1)
    opened = former._file
    ledger = former.anew()
    assert former.before("/data/picture") is None
    assert ledger.before("/data/picture") is None
    del former
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened)


def test_ledger_read_by_two_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that reads the same new lines between two calls of the first."""
    writer, reader = Ledger(str(tmp_path), 0), Ledger(str(tmp_path), 1)
    writer.note("/data/one", "overwrite")
    others = [lambda: reader.before("/data/two")]
    pread = os.pread

    def interrupted(file: int, count: int, begin: int) -> bytes:
        if others:
            others.pop()()
        return pread(file, count, begin)

    monkeypatch.setattr(os, "pread", interrupted)
    assert reader.before("/data/one") is not None
    writer.note("/data/two", "overwrite")
    assert reader.before("/data/two") is not None
    assert reader.paths() == ["/data/one", "/data/two"]


def test_a_line_for_which_a_disk_had_no_room_hides_no_other(tmp_path: Path) -> None:
    writer, reader = Ledger(str(tmp_path), 0), Ledger(str(tmp_path), 1)
    writer.note("/data/one", "overwrite")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = (tmp_path / "changes.jsonl").stat().st_size + 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            writer.note("/data/two", "overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.note("/data/three", "overwrite")
    assert reader.paths() == writer.paths() == ["/data/one", "/data/three"]
