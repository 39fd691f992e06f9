"""Directories for several stores of one run: fast and volatile ones beside a lasting one.

A store in the memory of a node (``/dev/shm``) outlives the processes but not the node; a store on
a file system outlives both. The newest undamaged snapshot counts, in whichever store it is.
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
    """Make a directory that only this user can access; it may exist already. Local.

    Args:
        path: path of the directory; its parent must exist. In a place where anybody may write the
            name could otherwise be taken by another user first.

    Returns:
        The path.

    Raises:
        StorageError: the directory cannot be made, belongs to another user or is open to others.

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
    """Remove a directory made by `private_directory` with its content. Local.

    Args:
        path: path of the directory; a missing one is ignored.

    Example:
        >>> with tempfile.TemporaryDirectory() as above:
        ...     path = checkpoints.private_directory(Path(above) / "run")
        ...     checkpoints.discard(path)
        ...     path.exists()
        False
    """
    shutil.rmtree(path, ignore_errors=True)
