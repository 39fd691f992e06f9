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
    """Make a directory that this user alone may use; it may be there already. Local.

    Args:
        path: path of the directory. Those above it must exist: in a place where anybody may
            write, the name could otherwise be taken before.

    Returns:
        The path.

    Raises:
        StorageError: it cannot be made, or belongs to somebody else.

    Example:
        >>> with tempfile.TemporaryDirectory() as above:
        ...     path = checkpoints.private_directory(Path(above) / "run")
        ...     oct(path.stat().st_mode & 0o777)
        '0o700'
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
    """Remove a directory made by `private_directory` and all in it. Local.

    Args:
        path: path of the directory; it need not be there.

    Example:
        >>> with tempfile.TemporaryDirectory() as above:
        ...     path = checkpoints.private_directory(Path(above) / "run")
        ...     checkpoints.discard(path)
        ...     path.exists()
        False
    """
    shutil.rmtree(path, ignore_errors=True)
