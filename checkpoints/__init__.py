"""Snapshots of named arrays in HDF5 files that are always valid. Needs only h5py and NumPy.

::

    store = Store("checkpoints")
    store.save(Snapshot(weights={"dense/kernel": kernel}, cursor={"step": 120}))
    found = store.newest_valid()  # (path, snapshot), or None
"""

from checkpoints.errors import (
    CheckpointError,
    DamagedSnapshot,
    IncompatibleSnapshot,
    InvalidSnapshot,
    SnapshotNotFound,
    StorageError,
)
from checkpoints.reader import read_snapshot
from checkpoints.retention import retained
from checkpoints.snapshot import Snapshot
from checkpoints.store import Store

__all__ = [
    "CheckpointError",
    "DamagedSnapshot",
    "IncompatibleSnapshot",
    "InvalidSnapshot",
    "Snapshot",
    "SnapshotNotFound",
    "StorageError",
    "Store",
    "read_snapshot",
    "retained",
]
