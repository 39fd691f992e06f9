"""Exceptions about checkpoints.

::

    CheckpointError
    +-- InvalidSnapshot          (also ValueError) the caller's input cannot be saved
    +-- DamagedSnapshot          the file differs from what was written: truncated, bit flips
    |   +-- NotASnapshot         the file is of another kind
    +-- IncompatibleSnapshot     (also ValueError) undamaged, but this version must not read it
    +-- SnapshotNotFound         (also FileNotFoundError)
    +-- StorageError             (also OSError) the directory: full, read-only, vanished, another's
        +-- StaleWriter          a later world writes here; this process was left behind

Every message is one line: the requirement, the value received, the remedy.
"""

from __future__ import annotations

import errno
import os

__all__ = [
    "CheckpointError",
    "DamagedSnapshot",
    "IncompatibleSnapshot",
    "InvalidSnapshot",
    "NotASnapshot",
    "SnapshotNotFound",
    "StaleWriter",
    "StorageError",
]


class CheckpointError(Exception):
    """Base class of all exceptions of this package."""


class InvalidSnapshot(CheckpointError, ValueError):
    """A snapshot has a name, type or shape that no file can hold."""


class DamagedSnapshot(CheckpointError):
    """The bytes of a file differ from the bytes written. Has `path` and `reason`."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path = os.fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return (
            "an undamaged snapshot was wanted. "
            f"Received: path={self.path!r}, {self.reason}. Use an older one."
        )


class NotASnapshot(DamagedSnapshot):
    """A file of another kind: none of it is recognisable as a snapshot."""


class IncompatibleSnapshot(CheckpointError, ValueError):
    """An undamaged file that this version refuses to read. Has `path` and `reason`."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path = os.fspath(path)
        self.reason = reason

    def __str__(self) -> str:
        return (
            "a snapshot that this version can read was wanted. "
            f"Received: path={self.path!r}, {self.reason}. "
            "Use the software that wrote it, or move the file away."
        )


class SnapshotNotFound(CheckpointError, FileNotFoundError):
    """The named file does not exist."""


class StorageError(CheckpointError, OSError):
    """The operating system refused an operation. The OSError is `__cause__`, its number `errno`."""


class StaleWriter(StorageError):
    """A later world writes into the directory; this process belongs to an earlier one.

    Has `directory`, `world` and `newest`. A world is a pair: the number of the start of the run,
    and the number of changes of its members since then.
    """

    def __init__(
        self, directory: str | os.PathLike[str], world: tuple[int, int], newest: tuple[int, int]
    ) -> None:
        super().__init__(directory, world, newest)
        self.errno = errno.ESTALE
        self.directory = os.fspath(directory)
        self.world = world
        self.newest = newest

    def __str__(self) -> str:
        return (
            "a writer of the newest world was wanted. "
            f"Received: path={self.directory!r}, into which {_world(self.newest)} writes, and this "
            f"process is of {_world(self.world)}. Nothing was written; end this process."
        )


def _world(world: tuple[int, int]) -> str:
    return f"start {world[0]} after {world[1]} repair{'' if world[1] == 1 else 's'}"


_ADVICE = {
    errno.ENOSPC: "Free some space or choose another directory",
    errno.EDQUOT: "Free some space or choose another directory",
    errno.EFBIG: "Raise the limit on file sizes or choose another directory",
    errno.EACCES: "Choose a directory that this user may use",
    errno.EPERM: "Choose a directory that this user may use",
    errno.EROFS: "Choose a directory that is not read-only",
    errno.ENOENT: "The directory has vanished: mount or create it again",
    errno.ESTALE: "The directory has vanished: mount or create it again",
    errno.ENOTDIR: "Choose a path that is a directory",
    errno.EBUSY: "Another save of this step is going on: wait for it",
    errno.EEXIST: "Choose a path that is a directory",
}


def storage_error(wanted: str, path: str | os.PathLike[str], error: OSError) -> StorageError:
    """One-line StorageError for an OSError; raise it `from error`."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "Check the file system")
    problem = StorageError(f"{wanted}. Received: path={os.fspath(path)!r}, {reason}. {advice}.")
    problem.errno = error.errno
    return problem


def foreign_directory(directory: str | os.PathLike[str], owner: int) -> StorageError:
    """The error of a directory for snapshots that belongs to another user, of number *owner*."""
    problem = StorageError(
        "a directory of this user's own was wanted. "
        f"Received: path={os.fspath(directory)!r}, which belongs to user {owner}. "
        "Choose another directory."
    )
    problem.errno = errno.EPERM
    return problem
