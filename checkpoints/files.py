"""Files in the directory of a store: names, atomic publishing, temporaries of the dead."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from checkpoints.retention import is_stale

_SNAPSHOT = re.compile(r"step-(\d{9,18})\.h5")
# Of a host and a process there, and of several processes with more numbers: see `together`.
_TEMPORARY = re.compile(
    r"(?:step-\d{9,18}\.h5|\.fence)\.([A-Za-z0-9_-]+)\.(\d{1,10})(?:\.\d{1,10}){0,2}\.tmp"
)

#: Temporaries that this process is writing now: its own id says nothing about leftovers of a
#: former process with the same id, which is the rule in containers.
_writing: set[str] = set()
_writing_lock = threading.Lock()


def file_name(step: int) -> str:
    """The name of the snapshot of a step: ``step-000000123.h5``."""
    return f"step-{step:09d}.h5"


def step_of(name: str) -> int | None:
    """The step in the name of a file; None if it is not the name of a snapshot."""
    match = _SNAPSHOT.fullmatch(name)
    if match is None or name != file_name(int(match[1])):
        return None
    return int(match[1])


def temporary_name(name: str, tag: str) -> str:
    """The temporary name of the file *name*; *tag* is ``HOST.PID`` of the publishing process."""
    return f"{name}.{tag}.tmp"


def tag_of(host: str, process: int) -> str:
    """Name a process in the names of its temporary files. Pure.

    Args:
        host: name of the host.
        process: process id there.

    Returns:
        Text of letters that a file's name may have.

    Example:
        >>> checkpoints.tag_of("node-7", 4711)
        'node-7.4711'
    """
    return f"{_plain(host)}.{process}"


def publish(
    path: Path, pieces: Iterable[memoryview], check: Callable[[], None] = lambda: None
) -> None:
    """Write a file so that its name only ever means all of these bytes, safely on the disk.

    Aside, synchronised, renamed, and the directory synchronised. On any error the temporary
    is removed and what the name meant before is untouched.

    Args:
        check: function called right before the file takes its name; it may raise to hinder it.

    Raises:
        OSError: from the operating system.
    """
    temporary = path.with_name(temporary_name(path.name, tag_of(_host(), os.getpid())))
    with in_use(temporary.name), contextlib.ExitStack() as undo:
        # Our own, of an earlier attempt after which even the removal failed.
        remove_quietly(temporary)
        with temporary.open("xb", buffering=0) as file:
            undo.callback(remove_quietly, temporary)
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
    """Make renames and removals in a directory durable, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def remove_stale(directory: Path) -> list[str]:
    """Remove temporaries whose writer is gone. Returns their names.

    Raises:
        OSError: the directory cannot be listed. Files that cannot be removed are left.
    """
    removed = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match is None or entry.name in _writing:
                continue
            with contextlib.suppress(OSError):
                if is_stale(
                    same_host=match[1] == _host(),
                    process_alive=_is_other_process(int(match[2])),
                    age_s=time.time() - entry.stat(follow_symlinks=False).st_mtime,
                ):
                    Path(entry.path).unlink()
                    removed.append(entry.name)
    return removed


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
def in_use(*names: str) -> Iterator[None]:
    """Context in which this thread alone of the process writes temporaries of these names.

    Raises:
        OSError: EBUSY, somebody else does.
    """
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
    """Remove the file *path*, if that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()
