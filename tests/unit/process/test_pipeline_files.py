"""Places of caches and snapshots of tf.data, of which some are there already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from matex.files.discarded import OnlyFiles
from matex.files.publish import publish
from matex.files.scratch import Scratch
from matex.files.view import FileView
from matex.process.pipeline_files import cache_place, snapshot_place


@pytest.fixture
def follower() -> Iterator[FileView]:
    scratch = Scratch()
    yield FileView(scratch, None, leads=False)
    scratch.remove()


def test_a_cache_that_is_there_is_read_by_all(follower: FileView, tmp_path: Path) -> None:
    path = f"{tmp_path}/cached"
    Path(f"{path}.index").touch()
    assert cache_place(follower, path) == path


@pytest.mark.parametrize("knows_ranks", [False, True])
def test_a_cache_stays_where_a_rank_began_it(
    knows_ranks: bool, follower: FileView, tmp_path: Path
) -> None:
    follower.knows_ranks = knows_ranks
    place = cache_place(follower, f"{tmp_path}/cached")
    Path(f"{place}_0.lockfile").touch()
    publish(follower)
    assert cache_place(follower, f"{tmp_path}/cached") == place
    assert Path(f"{place}_0.lockfile").exists() and not list(tmp_path.iterdir())


def test_a_leader_leaves_an_unfinished_cache_alone(
    follower: FileView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(follower)
    path = f"{tmp_path}/cached"
    assert cache_place(follower, path) == path
    Path(f"{path}_0.lockfile").touch()  # of a start that was killed
    place = cache_place(follower, path)
    assert place == cache_place(follower, path) != path
    assert capsys.readouterr().out.count("cached_0.lockfile is of a run that died") == 1


def test_each_rank_goes_on_with_a_snapshot_of_its_own(follower: FileView, tmp_path: Path) -> None:
    (tmp_path / "snap" / "run").mkdir(parents=True)
    place = snapshot_place(follower, f"{tmp_path}/snap")
    assert Path(place, "run").is_dir()
    (tmp_path / "snap" / "later").mkdir()
    Path(place, "own").touch()
    publish(follower)
    assert snapshot_place(follower, f"{tmp_path}/snap") == place
    assert not Path(place, "later").exists() and not (tmp_path / "snap" / "own").exists()


def test_the_only_rank_of_a_run_leaves_an_unfinished_cache_alone(tmp_path: Path) -> None:
    files = OnlyFiles()
    view, path = files.view(), f"{tmp_path}/cached"
    assert view is not None and cache_place(view, path) == path
    Path(f"{path}_0.lockfile").touch()  # of a start on more ranks
    assert cache_place(view, path) != path
    files.finish()
    assert [found.name for found in tmp_path.iterdir()] == ["cached_0.lockfile"]
