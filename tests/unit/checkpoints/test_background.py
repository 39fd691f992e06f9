"""Saving from a thread: nothing waits, nothing is lost in silence, and a failure ends nothing."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from checkpoints import BackgroundWriter, Saved, Snapshot, StorageError, Store
from ci.patience import patience


def snapshot(step: int, size: int = 8) -> Snapshot:
    return Snapshot(weights={"x": np.full(size, step, np.float32)}, cursor={"step": step})


class Heard(list[Saved]):
    """The saves that a writer reported, to wait for; with `gate` it waits until that is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, saved: Saved) -> None:
        with self.came:
            self.append(saved)
            self.came.notify_all()
        assert self.gate.wait(patience(60))

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self) >= count, 60)


def steps(store: Store) -> list[int]:
    return [store.load(path).step for path in store.list()]


def test_what_is_given_is_written_and_told(tmp_path: Path) -> None:
    heard, store = Heard(), Store(tmp_path)
    writer = BackgroundWriter(store, on_saved=heard)
    writer.save(snapshot(3))
    assert writer.close(60)
    (saved,) = heard
    assert (saved.step, saved.error, saved.path) == (3, None, tmp_path / "step-000000003.h5")
    assert saved.busy_s >= 0
    assert saved.seconds > 0
    assert steps(store) == [3]
    with pytest.raises(ValueError, match="a closed one"):
        writer.save(snapshot(4))


def test_the_newest_takes_the_place_of_what_waits(tmp_path: Path) -> None:
    heard, store = Heard(), Store(tmp_path, keep_last=9)
    writer = BackgroundWriter(store, on_saved=heard)
    heard.gate.clear()
    writer.save(snapshot(1))
    heard.wait_for(1)
    for step in (2, 3, 4):  # while the first is still on its way
        writer.save(snapshot(step))
    heard.gate.set()
    assert writer.close(60)
    assert steps(store) == [1, 4]


def test_what_makes_a_snapshot_is_called_once_in_the_thread_and_only_in_its_turn(
    tmp_path: Path,
) -> None:
    heard, store, made = Heard(), Store(tmp_path / "mount", keep_last=9), []

    def maker(step: int) -> Snapshot:
        made.append((step, threading.current_thread()))
        return snapshot(step)

    store.prepare()
    shutil.rmtree(tmp_path / "mount")
    writer = BackgroundWriter(store, on_saved=heard, retry_s=0.01)
    heard.gate.clear()
    writer.save(lambda: maker(1))  # where there is no directory: it is tried again
    heard.wait_for(1)
    (tmp_path / "mount").mkdir()
    heard.gate.set()
    heard.wait_for(2)
    heard.gate.clear()
    writer.save(snapshot(2))
    heard.wait_for(3)
    writer.save(lambda: maker(3))
    writer.save(lambda: maker(4))
    heard.gate.set()
    assert writer.close(60)
    assert [step for step, _ in made] == [1, 4]
    assert threading.main_thread() not in {thread for _, thread in made}
    assert steps(store) == [1, 2, 4]


def test_a_directory_that_comes_back_is_written_to_again(tmp_path: Path) -> None:
    heard, store = Heard(), Store(tmp_path / "mount")
    store.prepare()
    shutil.rmtree(tmp_path / "mount")
    writer = BackgroundWriter(store, on_saved=heard, retry_s=0.01)
    writer.save(snapshot(5))
    heard.wait_for(2)
    assert all(isinstance(saved.error, StorageError) for saved in heard)
    assert "vanished" in str(heard[0].error)
    (tmp_path / "mount").mkdir()
    while heard[-1].error is not None:
        heard.wait_for(len(heard) + 1)
    assert steps(store) == [5]
    assert writer.close(60)


def test_a_newer_one_takes_the_place_of_what_cannot_be_saved(tmp_path: Path) -> None:
    heard, store = Heard(), Store(tmp_path / "mount")
    store.prepare()
    shutil.rmtree(tmp_path / "mount")
    writer = BackgroundWriter(store, on_saved=heard, retry_s=3600)
    writer.save(snapshot(5))
    heard.wait_for(1)
    writer.save(snapshot(6))
    heard.wait_for(2)
    saved = writer.save_now(snapshot(7))
    assert (saved.step, saved.path) == (7, None)
    assert writer.close(60)  # without waiting for an hour
    assert [saved.step for saved in heard] == [5, 6, 7]
    assert not (tmp_path / "mount").exists()


def test_saving_now_is_done_when_it_returns(tmp_path: Path) -> None:
    heard, store = Heard(), Store(tmp_path)
    writer = BackgroundWriter(store, on_saved=heard)
    writer.save(snapshot(1))
    saved = writer.save_now(snapshot(2))
    assert saved.path is not None and saved.path.exists()
    assert store.load(saved.path).step == 2
    assert writer.close(60)
    assert steps(store)[-1] == 2


def test_a_private_directory_is_this_user_s_alone(tmp_path: Path) -> None:
    path = checkpoints.private_directory(tmp_path / "own")
    assert path.stat().st_mode & 0o777 == 0o700
    assert checkpoints.private_directory(path) == path
    Store(path).save(snapshot(1))
    checkpoints.discard(path)
    assert not path.exists()
    checkpoints.discard(path)


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name in ("open", "link", "file", "none/deeper"):
        with pytest.raises(StorageError, match=r"a directory of this user's own was wanted"):
            checkpoints.private_directory(tmp_path / name)
    if os.geteuid() == 0:
        strange = tmp_path / "strange"
        strange.mkdir(mode=0o700)
        os.chown(strange, 12345, 12345)
        with pytest.raises(StorageError, match="owner 12345, mode 700"):
            checkpoints.private_directory(strange)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_whose_thread_has_ended_takes_nothing_more(tmp_path: Path) -> None:
    def made() -> Snapshot:
        raise OSError("gone")

    writer = BackgroundWriter(Store(tmp_path), on_saved=Heard())
    writer.save(made)
    assert not writer.close(patience(60))
    again = BackgroundWriter(Store(tmp_path), on_saved=Heard())
    again.save(made)
    again._thread.join(patience(60))
    with pytest.raises(RuntimeError, match="ended by OSError: gone"):
        again.save(snapshot(2))
