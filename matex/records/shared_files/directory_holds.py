"""Directories that processes hold, so that no other run takes them for left ones.

A process id means nothing in another namespace of them, as containers of one host have that share
a directory. A lock does. Local to a host.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["hold", "unheld"]


def hold(path: Path) -> int:
    """Make the directory *path*, if it is missing, and hold it together with others.

    Returns:
        A file descriptor: the hold ends when it is closed, at the latest with the process.

    Raises:
        OSError: the directory cannot be made or opened.
    """
    while True:
        path.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as undo:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, file)
            with contextlib.suppress(OSError):  # the file system has no locks
                fcntl.flock(file, fcntl.LOCK_SH)
            # Somebody who removes what is left may have been faster.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    undo.pop_all()
                    return file


@contextlib.contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Context in which nobody can begin to hold the directory *path*; False if somebody does."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        yield isinstance(error, FileNotFoundError)
        return
    try:
        yield _can_lock(file)
    finally:
        os.close(file)


def _can_lock(file: int) -> bool:
    """Whether nobody else has locked *file*, which this process then has, or there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
