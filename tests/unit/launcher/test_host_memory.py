"""Files of a run in the memory of its hosts are found by its ranks, and gone after its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from matex.config import SEGMENTS
from matex.launcher import host_memory
from matex.launcher.host_memory import reserved
from matex.launcher.rank_processes import processes_with
from matex.run.open_mpi_segments import forsake_segments, ready_segments


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_memory, "_MEMORY", tmp_path)
    return tmp_path


def test_nothing_of_the_run_is_left_on_this_host(memory: Path) -> None:
    with reserved(processes_with) as places:
        assert places is not None and list(memory.iterdir()) == [places.segments]
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
    with reserved(processes_with) as places:
        assert places is not None
        stay.append(places.segments.name)
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
            assert path.is_dir() and segments.is_dir()
        rank.communicate()
    with reserved(processes_with):
        assert not path.exists() and not segments.exists()


OTHER_RUN = """
import sys
from pathlib import Path
from matex.launcher import host_memory
from matex.launcher.rank_processes import processes_with
host_memory._MEMORY = Path(sys.argv[1])
with host_memory.reserved(processes_with) as places:
    places.snapshots.mkdir()
    print(places.snapshots, flush=True)
    sys.stdin.readline()
    print(places.snapshots.exists(), places.segments.exists(), flush=True)
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_run_in_another_space_of_process_ids_keeps_its_places(memory: Path, again: bool) -> None:
    """A launcher's number in the name is not that of a process that can be seen."""
    with reserved(processes_with) as places:
        assert places is not None
        places.snapshots.mkdir()
        if again:  # ranks of a lost start are gone, and the next ones have not come yet
            places.segments.rmdir()
            places.hold()
        ended = subprocess.Popen(["true"])
        ended.wait()
        unseen = [
            path.rename(path.with_name(path.name.replace(f"-{os.getpid()}-", f"-{ended.pid}-")))
            for path in places
        ]
        with reserved(processes_with):
            assert all(path.is_dir() for path in unseen)


@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace needs root")
def test_two_runs_in_spaces_of_their_own_leave_each_other_alone(memory: Path) -> None:
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    program = [sys.executable, "-c", OTHER_RUN, str(memory)]
    later = ["sh", "-c", 'for i in $(seq 30); do true & wait; done; "$@"; exit', "sh"]
    first = subprocess.Popen(
        [*apart, *later, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdin is not None and first.stdout is not None
        if not (held := first.stdout.readline()):
            pytest.skip("no namespace can be made here")
        done = subprocess.run(
            [*apart, *program], input="\n", stdout=subprocess.PIPE, text=True, check=True,
            timeout=patience(60),
        )  # fmt: skip
        assert done.stdout.endswith("True True\n")
        assert Path(held.strip()).is_dir()
        out, _ = first.communicate("\n", timeout=patience(60))
        assert out == "True True\n"
    finally:
        first.kill()
        first.communicate()


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
