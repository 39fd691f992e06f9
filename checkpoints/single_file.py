"""Writing of a snapshot to a file of any name, outside of a store."""

from __future__ import annotations

import os
from pathlib import Path

from checkpoints import files
from checkpoints.errors import storage_error
from checkpoints.snapshot import Snapshot
from checkpoints.writer import encode

__all__ = ["write_snapshot"]


def write_snapshot(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write a snapshot atomically to a file of any name. Local.

    Args:
        path: path of the file; the directory must exist.
        snapshot: snapshot to write.

    Raises:
        StorageError: disk full, directory read-only or vanished, or a similar error; the file is
            then unchanged.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory) / "final.h5"
        ...     snapshot = checkpoints.Snapshot(weights={}, cursor={"step": 9})
        ...     checkpoints.write_snapshot(path, snapshot)
        ...     checkpoints.read_snapshot(path).step
        9
    """
    try:
        files.publish(Path(path), encode(snapshot).pieces)
    except OSError as error:
        raise storage_error("a snapshot on the disk was wanted", path, error) from error
