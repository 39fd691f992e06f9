"""A snapshot as bytes in memory, for another process: the bytes of a file, checked like one."""

from __future__ import annotations

import os

import numpy as np

from checkpoints.dtypes import Array
from checkpoints.reader import read_snapshot
from checkpoints.snapshot import Snapshot
from checkpoints.writer import encode

__all__ = ["from_bytes", "to_bytes"]


def to_bytes(snapshot: Snapshot) -> Array:
    """The file of *snapshot*, uint8, of shape (bytes,)."""
    return np.concatenate([np.frombuffer(piece, np.uint8) for piece in encode(snapshot).pieces])


def from_bytes(content: Array) -> Snapshot:
    """The snapshot whose file has *content*, uint8, contiguous.

    Raises:
        DamagedSnapshot, IncompatibleSnapshot: as from a file.
    """
    file = os.memfd_create("snapshot", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as writer:
            content.tofile(writer)
        return read_snapshot(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
