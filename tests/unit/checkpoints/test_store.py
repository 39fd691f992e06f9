"""A directory of snapshots: retention, skipping, temporaries, and what the disk may refuse."""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import (
    DamagedSnapshot,
    IncompatibleSnapshot,
    Snapshot,
    SnapshotNotFound,
    StorageError,
    Store,
    retained,
)
from checkpoints import files as store_files
from checkpoints.retention import FOREIGN_STALE_S, is_stale
from checkpoints.seal import SIZE, make_seal, parse_seal
from ci.patience import patience

ROOT = Path(checkpoints.__file__).parents[1]


def snapshot(step: int) -> Snapshot:
    return Snapshot(weights={"x": np.full(8, step, np.float32)}, cursor={"step": step})


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def steps_in(directory: Path) -> list[int]:
    """The steps of all files; anything else in the directory is a failure."""
    steps = [store_files.step_of(name) for name in names_in(directory)]
    assert None not in steps, names_in(directory)
    return sorted(steps)


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_save_and_load(tmp_path):
    store = Store(tmp_path / "new" / "deep")
    assert store.list() == []
    assert store.newest_valid() is None
    path = store.save(snapshot(123))
    assert path == tmp_path / "new" / "deep" / "step-000000123.h5"
    assert store.load(path).weights["x"].tolist() == [123] * 8
    assert store.load(str(path)).step == 123
    with pytest.raises(SnapshotNotFound):
        store.load(path.with_name("step-000000124.h5"))


def test_constructing_touches_nothing(tmp_path):
    Store(tmp_path / "new")
    assert names_in(tmp_path) == []


def test_list_rises_by_step_and_ignores_strangers(tmp_path):
    store = Store(tmp_path, keep_last=9)
    for step in (5, 10**10, 100):
        store.save(snapshot(step))
    for name in ("step-5.h5", "step-0000000007.h5", "x.h5", "step-000000007.h5.tmp", "notes"):
        (tmp_path / name).touch()
    assert [store.load(path).step for path in store.list()] == [5, 100, 10**10]


def test_same_step_is_replaced(tmp_path):
    store = Store(tmp_path)
    store.save(snapshot(1))
    path = store.save(Snapshot(weights={"y": np.ones(2)}, cursor={"step": 1}))
    assert list(store.load(path).weights) == ["y"]
    assert steps_in(tmp_path) == [1]


def test_keep_last_counts_down_from_the_one_just_written(tmp_path):
    store = Store(tmp_path, keep_last=2)
    for step in (1, 2, 3, 4):
        store.save(snapshot(step))
    assert steps_in(tmp_path) == [3, 4]
    Store(tmp_path, keep_last=1).save(snapshot(2))
    assert steps_in(tmp_path) == [2, 3, 4]


def test_default_keeps_three(tmp_path):
    store = Store(tmp_path)
    for step in range(6):
        store.save(snapshot(step))
    assert steps_in(tmp_path) == [3, 4, 5]


@given(steps=st.sets(st.integers(0, 60)), keep_last=st.integers(1, 5), written=st.integers(0, 60))
def test_the_newest_steps_are_retained(steps, keep_last, written):
    kept = retained(steps | {written}, keep_last, written=written)
    assert written in kept
    assert kept <= steps | {written}
    assert {step for step in steps if step > written} <= kept
    gone, older = steps - kept, {step for step in kept if step <= written}
    assert len(older) <= keep_last
    if gone:
        assert len(older) == keep_last
        assert max(gone) < min(older)
    assert retained(steps, keep_last) == set(sorted(steps)[-keep_last:])


@pytest.mark.parametrize("keep_last", [0, -1, 1.5])
def test_keep_last_must_be_a_positive_integer(tmp_path, keep_last):
    with pytest.raises(ValueError, match=f"Received: keep_last={keep_last}"):
        Store(tmp_path, keep_last=keep_last)


def test_newest_valid_skips_the_damaged_and_tells(tmp_path, caplog):
    store = Store(tmp_path, keep_last=5)
    paths = [store.save(snapshot(step)) for step in (1, 2, 3, 4)]
    flip(paths[3])
    os.truncate(paths[2], 1000)
    (tmp_path / "step-000000009.h5").touch()
    with caplog.at_level(logging.WARNING, logger="checkpoints"):
        found = store.newest_valid()
    assert found is not None
    assert (found[0], found[1].step) == (paths[1], 2)
    assert [record.getMessage().count("\n") for record in caplog.records] == [0, 0, 0]
    for record, name in zip(caplog.records, (9, 4, 3), strict=True):
        assert f"step-00000000{name}.h5" in record.getMessage()
    told = []
    assert store.newest_valid(on_skip=lambda path, error: told.append((path, error))) is not None
    assert [path for path, _ in told[1:]] == [paths[3], paths[2]]
    assert all(isinstance(error, DamagedSnapshot) for _, error in told)
    assert len(caplog.records) == 3
    assert len(store.list()) == 5


def test_newest_valid_of_only_damaged_files_is_none(tmp_path):
    store = Store(tmp_path)
    flip(store.save(snapshot(1)), 3)
    told = []
    assert store.newest_valid(on_skip=lambda path, _: told.append(path.name)) is None
    assert told == ["step-000000001.h5"]


def test_newest_valid_does_not_go_back_behind_a_newer_format(tmp_path):
    store = Store(tmp_path)
    store.save(snapshot(1))
    path = store.save(snapshot(2))
    content = path.read_bytes()
    seal = parse_seal(content[:SIZE])
    manifest = content[seal.manifest_start : seal.manifest_end].replace(
        b'"format_version":1', b'"format_version":2'
    )
    arrays = content[seal.manifest_end :]
    new = make_seal(b"", manifest, array_bytes=len(arrays))
    path.write_bytes(new.block() + manifest + arrays)
    with pytest.raises(IncompatibleSnapshot, match="format_version=2"):
        store.newest_valid()


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(timeout=patience(60))
    return process.pid


def temporary(directory: Path, *, process: int, host: str | None = None) -> Path:
    path = directory / f"step-000000007.h5.{host or store_files._host()}.{process}.tmp"
    path.write_bytes(b"half")
    return path


def test_temporaries_of_the_dead_are_removed_and_of_the_living_kept(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        gone = [
            temporary(tmp_path, process=dead_process()),
            temporary(tmp_path, process=os.getpid()),
        ]
        old = temporary(tmp_path, process=1, host="elsewhere")
        os.utime(old, (0, 0))
        kept = [
            temporary(tmp_path, process=living.pid),
            temporary(tmp_path, process=dead_process(), host="elsewhere"),
            tmp_path / "step-000000007.h5.somebody.else.tmp",
        ]
        kept[-1].touch()
        Store(tmp_path).save(snapshot(8))
        assert not any(path.exists() for path in [*gone, old])
        assert all(path.exists() for path in kept)
        living.communicate(b"\n", timeout=patience(60))


def test_a_writer_whose_process_cannot_be_seen_keeps_its_file(tmp_path, monkeypatch):
    """A container has process ids of its own, and may have the name of its host."""
    gone = dead_process()
    monkeypatch.setattr(store_files.os, "getpid", lambda: gone)
    seen = []

    def pieces():
        monkeypatch.undo()
        monkeypatch.setattr(store_files, "_writing", set())  # as in another process
        yield memoryview(b"first")
        seen.extend(names_in(tmp_path))
        assert store_files.remove_stale(tmp_path) == []
        assert names_in(tmp_path) == seen
        yield memoryview(b"second")

    store_files.publish(tmp_path / "step-000000001.h5", pieces())
    assert (tmp_path / "step-000000001.h5").read_bytes() == b"firstsecond"
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("same_host", "alive", "age_s", "stale"),
    [
        (True, True, 1e9, False),
        (True, False, 0.0, True),
        (False, False, FOREIGN_STALE_S - 1, False),
        (False, False, FOREIGN_STALE_S + 1, True),
    ],
)
def test_a_temporary_file_is_stale_once_its_writer_is_gone(same_host, alive, age_s, stale):
    assert is_stale(same_host=same_host, process_alive=alive, age_s=age_s) is stale


def test_own_temporary_of_a_failed_attempt_does_not_stop_the_next(tmp_path):
    store = Store(tmp_path)
    store.save(snapshot(6))
    temporary(tmp_path, process=os.getpid())
    store.save(snapshot(7))
    assert steps_in(tmp_path) == [6, 7]


def test_second_save_of_one_step_at_one_time_is_refused(tmp_path):
    path = tmp_path / "step-000000001.h5"

    def pieces():
        yield memoryview(b"first")
        with pytest.raises(OSError, match="busy"):
            store_files.publish(path, [memoryview(b"second")])

    store_files.publish(path, pieces())
    assert path.read_bytes() == b"first"
    assert names_in(tmp_path) == [path.name]


def test_error_while_writing_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "step-000000001.h5"
    path.write_bytes(b"old")

    def pieces():
        yield memoryview(b"new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_files.publish(path, pieces())
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == [path.name]


def one_line(caught: pytest.ExceptionInfo[StorageError]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert "Received: path=" in message
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.errno == caught.value.__cause__.errno
    return message


@pytest.mark.parametrize("deep", ["", "below"])
def test_directory_that_is_a_file(tmp_path, deep):
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / deep)
    for call in (lambda: store.save(snapshot(1)), store.prepare, store.list, store.newest_valid):
        with pytest.raises(StorageError) as caught:
            call()
        assert "Choose a path that is a directory" in one_line(caught)


def test_vanished_directory_is_not_made_again(tmp_path):
    store = Store(tmp_path / "mount")
    store.save(snapshot(1))
    shutil.rmtree(tmp_path / "mount")
    for call in (lambda: store.save(snapshot(2)), store.list, store.newest_valid):
        with pytest.raises(StorageError) as caught:
            call()
        assert "has vanished" in one_line(caught)
    assert names_in(tmp_path) == []


def test_name_that_is_taken_by_a_directory(tmp_path):
    store = Store(tmp_path)
    store.save(snapshot(1))
    (tmp_path / "step-000000002.h5").mkdir()
    with pytest.raises(StorageError) as caught:
        store.save(snapshot(2))
    one_line(caught)
    assert steps_in(tmp_path) == [1, 2]
    told = []
    found = store.newest_valid(on_skip=lambda path, _: told.append(path.name))
    assert (found[1].step, told) == (1, ["step-000000002.h5"])


def test_old_file_that_cannot_be_removed_does_not_fail_the_save(tmp_path, caplog):
    store = Store(tmp_path, keep_last=1)
    store.prepare()
    (tmp_path / "step-000000001.h5").mkdir()
    with caplog.at_level(logging.WARNING, logger="checkpoints"):
        path = store.save(snapshot(2))
    assert store.load(path).step == 2
    (record,) = caplog.records
    assert record.getMessage().startswith("kept old snapshots")


def scored(step: int, score: float | None) -> Snapshot:
    extra = {} if score is None else {"score": np.array(score)}
    return Snapshot(weights={"x": np.ones(2)}, cursor={"step": step}, extra=extra)


def test_some_are_kept_for_good_and_the_best_too(tmp_path):
    scores = {10: 0.9, 20: 0.1, 30: None, 40: 0.5, 50: 0.2, 60: math.nan, 70: 0.7, 80: 0.8}
    for step, score in scores.items():
        # A new object each time, as after a restart: scores are read from the files.
        Store(tmp_path, keep_last=1, keep_every=30, keep_best=2).save(scored(step, score))
    kept = [int(path.stem.split("-")[1]) for path in Store(tmp_path).list()]
    assert kept == [20, 30, 50, 60, 80]


def test_a_damaged_file_has_no_score_and_stops_nothing(tmp_path):
    store = Store(tmp_path, keep_last=1, keep_best=1)
    path = store.save(scored(1, 0.1))
    path.write_bytes(path.read_bytes()[:-1])
    again = Store(tmp_path, keep_last=1, keep_best=1)
    again.save(scored(2, 0.5))
    again.save(scored(3, 0.7))
    assert [int(path.stem.split("-")[1]) for path in again.list()] == [2, 3]


@given(
    st.sets(st.integers(0, 200)),
    st.integers(1, 4),
    st.integers(0, 50),
    st.dictionaries(st.integers(0, 200), st.floats(), max_size=9),
    st.integers(0, 3),
)
def test_what_retention_keeps_it_keeps_again(steps, keep_last, keep_every, scores, keep_best):
    rules = {"keep_every": keep_every, "keep_best": keep_best, "scores": scores}
    once = retained(steps, keep_last, **rules)
    assert retained(steps, keep_last) <= once <= steps
    assert retained(once, keep_last, **rules) == once
    if keep_every:
        wanted = {step // keep_every for step in steps if step >= keep_every}
        assert {step // keep_every for step in once} >= wanted


@pytest.mark.parametrize("rule", ["keep_every", "keep_best"])
def test_other_rules_of_retention_must_not_be_negative(tmp_path, rule):
    with pytest.raises(ValueError, match=f"{rule}=-1"):
        Store(tmp_path, **{rule: -1})


STRANGER = """
import os, sys
from checkpoints import StorageError, Store
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
try:
    Store(sys.argv[1]).prepare()
except StorageError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_directory_of_another_user_is_refused_by_name(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 == 0o005:  # TMPDIR may be private
            break
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    assert f"path={str(tmp_path)!r}, which belongs to user 0. Choose another" in line


def test_saves_of_one_step_into_two_directories_do_not_meet(tmp_path: Path) -> None:
    """A rank writes the checkpoint of a step into memory and into a file at the same time."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()

    def beside() -> None:
        store_files.publish(disk / "step-000000001.h5", [memoryview(b"disk")])

    store_files.publish(memory / "step-000000001.h5", [memoryview(b"memory")], beside)
    assert names_in(memory) == names_in(disk) == ["step-000000001.h5"]

    def again() -> None:
        store_files.publish(memory / "step-000000001.h5", [memoryview(b"other")])

    with pytest.raises(OSError, match="busy"):
        store_files.publish(memory / "step-000000001.h5", [memoryview(b"memory")], again)


def test_path_of_a_step_is_that_of_its_file(tmp_path):
    store = checkpoints.Store(tmp_path)
    path = store.save(checkpoints.Snapshot(weights={}, cursor={"step": 7, "epoch": 0}))
    assert store.path_of(7) == path
    with pytest.raises(ValueError, match="Received: -1"):
        store.path_of(-1)
