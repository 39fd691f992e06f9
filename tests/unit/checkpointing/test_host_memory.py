"""Files of a run in the memory of its hosts are found by its ranks, and gone after its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from matex.checkpointing import host_memory
from matex.checkpointing.host_memory import forsake_segments, ready_segments, reserved
from matex.config import SEGMENTS
from matex.launcher.rank_processes import processes_with


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_memory, "_MEMORY", tmp_path)
    return tmp_path


def test_nothing_of_the_run_is_left_on_this_host(memory: Path) -> None:
    with reserved(processes_with) as places:
        assert places is not None and list(memory.iterdir()) == []
        for directory in places:
            assert directory.parent == memory
            (directory / "deep").mkdir(parents=True)
    assert list(memory.iterdir()) == []


def test_without_such_memory_there_are_no_names(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "_MEMORY", memory / "none")
    with reserved(processes_with) as places:
        assert places is None


def test_only_what_launchers_of_this_host_left_is_removed(memory: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    user, host = os.getuid(), os.uname().nodename.replace("-", "_").replace(".", "_")
    stay = [
        f"matex-{user}-{os.getppid()}-{host}-0123abcd",
        f"matex-{user}-{ended.pid}-{host}x-0123abcd",  # of another host
        f"matex-{user + 1}-{ended.pid}-{host}-0123abcd",
        "something",
    ]
    left = [f"matex-{user}-{ended.pid}-{host}-89ef{end}" for end in ("0123", "0123-mpi")]
    for name in (*stay, *left):
        (memory / name).mkdir()
    with reserved(processes_with):
        assert sorted(path.name for path in memory.iterdir()) == sorted(stay)


def test_what_the_ranks_of_a_killed_launcher_use_stays(memory: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    host = os.uname().nodename.replace("-", "_").replace(".", "_")
    path = memory / f"matex-{os.getuid()}-{ended.pid}-{host}-0123abcd"
    segments = path.with_name(f"{path.name}-mpi")
    for directory in (path, segments):
        directory.mkdir()
    settings = {**os.environ, SEGMENTS: str(segments)}
    with subprocess.Popen(["cat"], env=settings, stdin=subprocess.PIPE) as rank:
        with reserved(processes_with):
            assert sorted(memory.iterdir()) == [path, segments]
        rank.communicate()
    with reserved(processes_with):
        assert not list(memory.iterdir())


def test_ranks_make_the_directory_of_segments_and_the_last_removes_it(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserved(processes_with) as places:
        assert places is not None
        for name, value in places.settings.items():
            monkeypatch.setenv(name, value)
        ready_segments()
        ready_segments()
        assert places.segments.stat().st_mode & 0o777 == 0o700
        segment = places.segments / "segment"
        segment.touch()
        forsake_segments()
        assert segment.exists()
        segment.unlink()
        forsake_segments()
        assert list(memory.iterdir()) == []


def test_where_it_cannot_be_made_open_mpi_takes_its_own_place(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (memory / "file").touch()
    monkeypatch.setenv(SEGMENTS, str(memory / "file" / "matex-1"))
    ready_segments()
    assert SEGMENTS not in os.environ
    monkeypatch.setenv(SEGMENTS, str(memory / "of-the-site"))  # not chosen by matex run
    ready_segments()
    forsake_segments()
    assert os.environ[SEGMENTS] == str(memory / "of-the-site")
    assert [path.name for path in memory.iterdir()] == ["file"]
