"""Keras's functions on files, on ranks whose files are the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from matex.files.keras_files import make_directory


def makedirs(path: str) -> None:
    os.makedirs(path)  # noqa: PTH103 - as Keras


def test_a_directory_that_another_rank_made_first_is_there(tmp_path: Path) -> None:
    """ModelCheckpoint meets it: it has just looked, and found none."""
    path = tmp_path / "saved" / "best"
    make_directory(makedirs, {"path": str(path)})
    make_directory(makedirs, {"path": str(path)})
    assert path.is_dir()


def test_a_file_in_its_place_is_still_an_error(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_text("not a directory")
    with pytest.raises(FileExistsError):
        make_directory(makedirs, {"path": str(path)})
