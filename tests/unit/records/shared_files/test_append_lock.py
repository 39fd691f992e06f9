"""A lock around each append to a file of several hosts, which never stops the writer for long."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.patience import patience
from matex.records.events import EventLog, read_events
from matex.records.shared_files.append_lock import AppendLock
from matex.records.shared_files.file_systems import _kind_of, is_local

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/a\040b rw - tmpfs tmpfs rw
32 22 0:42 / /mnt rw - ext4 /dev/sdb1 rw
33 32 0:43 / /mnt rw - cifs //server/mnt rw
broken
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/tmp/report", "ext4"), ("/home", "nfs4"), ("/home/x/report", "nfs4"),
        ("/homes", "ext4"), ("/home/a b/c", "tmpfs"), ("/mnt/c", "cifs"),
    ],
)  # fmt: skip
def test_a_directory_is_of_the_file_system_that_is_mounted_last(directory: str, kind: str) -> None:
    assert _kind_of(Path(directory), MOUNTS) == kind


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Directories are taken for those of a file server."""
    monkeypatch.setattr("matex.records.shared_files.append_lock.is_local", lambda directory: False)
    yield
    for thread in threading.enumerate():
        if thread.name == "matex-append-lock":
            thread.join(patience(10))
            assert not thread.is_alive()


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def is_locked(path: Path) -> bool:
    file = opened(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def test_nothing_is_locked_on_a_local_disk(tmp_path: Path) -> None:
    if not is_local(tmp_path):
        pytest.skip("the temporary directory is of a file server")
    asked: list[int] = []
    lock = AppendLock(tmp_path, ask=lambda file, how: asked.append(how))
    file = opened(tmp_path / "file")
    with lock.held(file):
        pass
    assert not asked
    os.close(file)


@pytest.mark.usefixtures("shared")
def test_a_file_of_several_hosts_is_locked_while_one_appends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file, lock = opened(path), AppendLock(tmp_path, most_s=patience(5))
    for _ in range(3):
        with lock.held(file):
            assert is_locked(path)
    limit = time.monotonic() + patience(10)
    while is_locked(path):
        assert time.monotonic() < limit
    assert not lock.was_late
    os.close(file)


@pytest.mark.usefixtures("shared")
def test_two_writers_take_turns(tmp_path: Path) -> None:
    """Each appends as a client of NFS does, which asks for the size first."""
    path = tmp_path / "file"

    def append(name: bytes) -> None:
        file, lock = os.open(path, os.O_RDWR | os.O_CREAT), AppendLock(tmp_path, most_s=60)
        for _ in range(20):
            with lock.held(file):
                size = os.fstat(file).st_size
                time.sleep(0.001)
                os.pwrite(file, name, size)
        os.close(file)

    writers = [threading.Thread(target=append, args=(name,)) for name in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(path.read_bytes()) == sorted(b"abc" * 20)


@pytest.mark.usefixtures("shared")
def test_a_hung_lock_daemon_holds_up_one_write_a_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    asked: list[int] = []

    def hung(file: int, how: int) -> None:
        asked.append(how)
        answers.wait(patience(60))

    path = tmp_path / "events.jsonl"
    given = {"most_s": 0.2, "ask": hung}
    monkeypatch.setattr(AppendLock.__init__, "__kwdefaults__", given)
    log, said = EventLog(path, 0), []
    log.complain = said.append
    began = time.monotonic()
    for number in range(100):
        log.write("event", number=number)
    assert time.monotonic() - began < patience(5)
    assert [event["number"] for event in read_events(path)] == [*range(100)]
    assert len(asked) == 1
    (line,) = said
    assert "locks no files in time" in line
    answers.set()


@pytest.mark.usefixtures("shared")
def test_a_file_system_without_locks_is_asked_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def refused(file: int, how: int) -> None:
        asked.append(how)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    file, lock = opened(tmp_path / "file"), AppendLock(tmp_path, ask=refused)
    for _ in range(3):
        with lock.held(file):
            pass
    assert (len(asked), lock.was_late) == (1, False)
    os.close(file)
