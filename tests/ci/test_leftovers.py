"""The leftovers that are named in the temporary directory of a test run."""

from __future__ import annotations

from pathlib import Path

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
