"""Places of caches and snapshots of tf.data, of which some are there already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from matex.files.scratch import ALIAS, Scratch
from matex.files.view import FileView
from matex.process.tensorflow_files import _place


@pytest.fixture
def follower() -> Iterator[FileView]:
    scratch = Scratch()
    yield FileView(scratch, None, leads=False)
    scratch.remove()


def test_a_cache_that_is_there_is_read_by_all(follower: FileView, tmp_path: Path) -> None:
    path = f"{tmp_path}/cached"
    Path(f"{path}.index").touch()
    assert _place(follower, path, "keep names") == path
    assert _place(follower, f"{tmp_path}/other", "keep names") == f"{ALIAS}{tmp_path}/other"


def test_each_rank_goes_on_with_a_snapshot_of_its_own(follower: FileView, tmp_path: Path) -> None:
    (tmp_path / "snap" / "run").mkdir(parents=True)
    place = _place(follower, f"{tmp_path}/snap", "keep tree")
    assert place == f"{ALIAS}{tmp_path}/snap"
    assert Path(place, "run").is_dir()
    (tmp_path / "snap" / "later").mkdir()
    assert _place(follower, f"{tmp_path}/snap", "keep tree") == place
    assert not Path(place, "later").exists()
