"""A writer of a world that others have left changes nothing in the directory any more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from checkpoints import BackgroundWriter, Fence, Saved, Snapshot, StaleWriter, StorageError, Store
from checkpoints.fence import FENCE
from checkpoints.files import tag_of, temporary_name
from checkpoints.together import Team
from ci.patience import patience


def snapshot(step: int) -> Snapshot:
    return Snapshot(weights={"x": np.full(8, step, np.float32)}, cursor={"step": step})


def store(directory: Path, start: int, repairs: int) -> Store:
    return Store(directory, keep_last=2, fence=Fence(directory, lambda: (start, repairs)))


def steps(directory: Path) -> list[int]:
    return [Store(directory).load(path).step for path in Store(directory).list()]


@pytest.mark.parametrize("newer", [(1, 1), (2, 0)], ids=["repaired", "started again"])
def test_who_was_left_behind_writes_and_removes_nothing(
    tmp_path: Path, newer: tuple[int, int]
) -> None:
    left, other = store(tmp_path, 1, 0), store(tmp_path, *newer)
    left.save(snapshot(1))
    left.save(snapshot(2))
    other.save(snapshot(3))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StaleWriter, match="writer of the newest world") as refused:
        left.save(snapshot(9))
    assert (refused.value.world, refused.value.newest) == ((1, 0), newer)
    assert sorted(tmp_path.iterdir()) == before
    team = Team(place=0, size=1, tag="host.1.0")
    with pytest.raises(StaleWriter):
        left.save_together(snapshot(9), team)
    assert sorted(tmp_path.iterdir()) == before
    other.save(snapshot(4))
    assert steps(tmp_path) == [3, 4]


def test_a_writer_follows_the_world_that_it_goes_on_with(tmp_path: Path) -> None:
    world = [(1, 0)]
    mine = Store(tmp_path, fence=Fence(tmp_path, lambda: world[0]))
    mine.save(snapshot(1))
    store(tmp_path, 1, 2).save(snapshot(2))
    world[0] = (1, 2)
    mine.save(snapshot(3))
    assert steps(tmp_path) == [1, 2, 3]
    assert Fence(tmp_path, lambda: (0, 0)).newest() == (1, 2)


def test_a_stale_writer_does_not_try_again(tmp_path: Path) -> None:
    told: list[Saved] = []
    heard = threading.Event()

    def on_saved(saved: Saved) -> None:
        told.append(saved)
        heard.set()

    store(tmp_path, 2, 0).save(snapshot(1))
    writer = BackgroundWriter(store(tmp_path, 1, 5), on_saved=on_saved, retry_s=60.0)
    writer.save(snapshot(7))
    assert heard.wait(patience(60))
    assert writer.close(60)
    assert [type(saved.error) for saved in told] == [StaleWriter]
    assert steps(tmp_path) == [1]


@pytest.mark.parametrize("content", [b"", b"3", b"1 x", b"\xff\xfe 1", b"1 2 3"])
def test_a_damaged_fence_keeps_nobody_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FENCE).write_bytes(content)
    store(tmp_path, 1, 0).save(snapshot(1))
    assert (tmp_path / FENCE).read_text() == "1 0\n"


def test_a_fence_that_cannot_be_read_is_a_fault_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / FENCE).mkdir()
    with pytest.raises(StorageError, match="the fence of a directory was wanted") as refused:
        store(tmp_path, 1, 0).save(snapshot(1))
    assert not isinstance(refused.value, StaleWriter)
    assert steps(tmp_path) == []


def test_what_a_process_that_died_left_of_a_fence_is_removed(tmp_path: Path) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], check=True, capture_output=True
    )
    left = tmp_path / temporary_name(FENCE, tag_of(os.uname().nodename, int(gone.stdout)))
    left.touch()
    store(tmp_path, 1, 0).save(snapshot(1))
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {FENCE, "step-000000001.h5"}
