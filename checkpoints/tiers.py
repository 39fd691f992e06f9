"""Several stores of one run, the quick and volatile ones beside the slow and lasting one.

A tier in the memory of a node (``/dev/shm``) outlives the processes but not the node; that
on a file system outlives both. What is newest and whole counts, wherever it is.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from checkpoints.errors import StorageError, storage_error

__all__ = ["discard", "private_directory"]


def private_directory(path: str | os.PathLike[str]) -> Path:
    """Make *path* a directory that this user alone may use; it may be there already.

    The directories above it must exist: in a place where anybody may write, the name could
    otherwise be taken before.

    Raises:
        StorageError: it cannot be made, or belongs to somebody else.
    """
    path = Path(path)
    wanted = "a directory of this user's own was wanted"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise storage_error(wanted, path, error) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        owner = f"owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}"
        problem = StorageError(
            f"{wanted}. Received: path={os.fspath(path)!r}, {owner}. Choose another name."
        )
        problem.errno = errno.EPERM
        raise problem
    return path


def discard(path: str | os.PathLike[str]) -> None:
    """Remove a directory made by `private_directory` and all in it; nothing if there is none."""
    shutil.rmtree(path, ignore_errors=True)
