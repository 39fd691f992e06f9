"""Files in the directory of a store: names, atomic publishing, leftover temporary files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from checkpoints.retention import is_stale

_SNAPSHOT = re.compile(r"step-(\d{9,18})\.h5")
# Host and process id, and further numbers if several processes write: see `together`.
_TEMPORARY = re.compile(
    r"(?:step-\d{9,18}\.h5|\.fence)\.([A-Za-z0-9_-]+)\.(\d{1,10})(?:\.\d{1,10}){0,2}\.tmp"
)

#: Temporary files that this process is writing. Its own process id says nothing about leftovers of
#: an earlier process with the same id, which is usual in containers.
_writing: set[str] = set()
_writing_lock = threading.Lock()


def file_name(step: int) -> str:
    """Name of the snapshot file of a step: ``step-000000123.h5``."""
    return f"step-{step:09d}.h5"


def step_of(name: str) -> int | None:
    """Step in the name of a snapshot file; None for any other name."""
    match = _SNAPSHOT.fullmatch(name)
    if match is None or name != file_name(int(match[1])):
        return None
    return int(match[1])


def temporary_name(name: str, tag: str) -> str:
    """Temporary name of the file *name*; *tag* is ``HOST.PID`` of the publishing process."""
    return f"{name}.{tag}.tmp"


def tag_of(host: str, process: int) -> str:
    """Tag of a process in the names of its temporary files. Pure.

    Args:
        host: name of the host.
        process: process id on that host.

    Returns:
        ``HOST.PID``, of characters that are safe in file names.

    Example:
        >>> checkpoints.tag_of("node-7", 4711)
        'node-7.4711'
    """
    return f"{_plain(host)}.{process}"


def publish(
    path: Path, pieces: Iterable[memoryview], check: Callable[[], None] = lambda: None
) -> None:
    """Write a file atomically: its name refers to all of these bytes, on the disk, or to none.

    The temporary file is written, synchronised and renamed, and the directory is synchronised. On
    an error the temporary file is removed and the file *path* is unchanged.

    Args:
        check: function called right before the renaming; it may raise to prevent it.

    Raises:
        OSError: from the operating system.
    """
    temporary = path.with_name(temporary_name(path.name, tag_of(_host(), os.getpid())))
    with in_use(temporary), contextlib.ExitStack() as undo:
        # A leftover of this process, after an attempt in which even the removal failed.
        remove_quietly(temporary)
        with temporary.open("xb", buffering=0) as file:
            undo.callback(remove_quietly, temporary)
            hold(file)
            for piece in pieces:
                done = 0
                while done < len(piece):
                    done += file.write(piece[done:])
            os.fsync(file.fileno())
            check()
            temporary.replace(path)
            undo.pop_all()
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable, if the file system supports it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def remove_stale(directory: Path) -> list[str]:
    """Remove temporary files whose writer has ended; return their names.

    A writer in another namespace of process ids, as in a container, is known by its hold.

    Raises:
        OSError: the directory cannot be listed. Files that cannot be removed are left in place.
    """
    removed = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match is None or str(Path(entry.path).absolute()) in _writing:
                continue
            with contextlib.suppress(OSError):
                if is_stale(
                    same_host=match[1] == _host(),
                    process_alive=_is_other_process(int(match[2])),
                    age_s=time.time() - entry.stat(follow_symlinks=False).st_mtime,
                ) and not _is_held(entry.path):
                    Path(entry.path).unlink()
                    removed.append(entry.name)
    return removed


def hold(file: BinaryIO) -> None:
    """Keep other processes from removing *file* while it is open, if its file system has locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(path: str) -> bool:
    """Whether a process holds the file *path*.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system has no locks
        return False
    finally:
        os.close(descriptor)
    return False


def _is_other_process(process: int) -> bool:
    if not 0 < process < 2**31 or process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _host() -> str:
    return _plain(os.uname().nodename)


def _plain(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", host) or "host"


@contextlib.contextmanager
def in_use(*files: Path) -> Iterator[None]:
    """Context in which only this thread of the process writes these temporary *files*.

    Raises:
        OSError: EBUSY, another thread does.
    """
    names = [str(file.absolute()) for file in files]
    with _writing_lock:
        if busy := _writing.intersection(names):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), busy.pop())
        _writing.update(names)
    try:
        yield
    finally:
        with _writing_lock:
            _writing.difference_update(names)


def remove_quietly(path: Path) -> None:
    """Remove the file *path*, ignoring errors."""
    with contextlib.suppress(OSError):
        path.unlink()
