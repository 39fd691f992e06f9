"""A snapshot as bytes for another process: the bytes of its file, checked in the same way."""

from __future__ import annotations

import os

import numpy as np

from checkpoints.dtypes import Array
from checkpoints.reader import read_snapshot
from checkpoints.snapshot import Snapshot
from checkpoints.writer import encode

__all__ = ["from_bytes", "to_bytes"]


def to_bytes(snapshot: Snapshot) -> Array:
    """Encode a snapshot as the bytes of its file. Local.

    Args:
        snapshot: snapshot to encode.

    Returns:
        Array of uint8, of shape (bytes,).

    Example:
        >>> content = checkpoints.to_bytes(checkpoints.Snapshot(weights={}, cursor={"step": 3}))
        >>> checkpoints.from_bytes(content).step
        3
    """
    return np.concatenate([np.frombuffer(piece, np.uint8) for piece in encode(snapshot).pieces])


def from_bytes(content: bytes | Array) -> Snapshot:
    """Decode a snapshot, and check every byte. Local.

    Args:
        content: bytes, or contiguous array of uint8 and shape (bytes,), from `to_bytes`.

    Returns:
        The snapshot.

    Raises:
        DamagedSnapshot, IncompatibleSnapshot: as in `read_snapshot`.

    Example:
        >>> snapshot = checkpoints.Snapshot(weights={"w": np.arange(3)}, cursor={"step": 3})
        >>> checkpoints.from_bytes(checkpoints.to_bytes(snapshot)).weights["w"].tolist()
        [0, 1, 2]
    """
    file = os.memfd_create("snapshot", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as writer:
            np.frombuffer(content, np.uint8).tofile(writer)
        return read_snapshot(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
