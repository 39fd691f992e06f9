"""The leftovers of a test run: what is named, what is deleted, and what is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.testing import leftovers
from ci.testing.leftovers import stray_tmp

SOURCE = "__autograph_generated_file0x"


def test_what_tensorflow_and_python_write_there_is_no_leftover(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "__pycache__").mkdir(parents=True)
    (private / f"{SOURCE}.py").touch()
    (private / "__pycache__" / f"{SOURCE}.cpython-311.pyc").touch()
    assert stray_tmp(private) == []
    assert not private.exists()


def test_anything_else_is_named(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "__pycache__").mkdir(parents=True)
    (private / "__pycache__" / "other.cpython-311.pyc").touch()
    (private / "matex-1").touch()
    assert stray_tmp(private) == ["__pycache__", "matex-1"]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for /dev/shm, where other tests keep theirs meanwhile."""
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", tmp_path / "memory")
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory"


def test_segments_of_another_part_of_the_tests_stay(memory: Path) -> None:
    """Parts run beside each other, and between two launches no process maps a segment."""
    with leftovers.own_segments() as (variables, segments):
        (place,) = variables.values()
        (Path(place) / "segment").touch()
        assert leftovers.stray_shared_memory(set()) == []
        assert segments() == [f"{place}/segment"]
    assert not list(memory.iterdir())


def test_what_no_living_process_uses_is_named_and_deleted(memory: Path) -> None:
    (memory / "before").touch()
    before = leftovers.shared_memory()
    (memory / "segment").touch()
    (memory / "folder").mkdir()
    assert leftovers.stray_shared_memory(before) == ["folder", "segment"]
    assert [path.name for path in memory.iterdir()] == ["before"]
