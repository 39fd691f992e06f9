"""Snapshots of named arrays in HDF5 files that are always valid. Needs only h5py and NumPy.

::

    store = Store("checkpoints")
    store.save(Snapshot(weights={"dense/kernel": kernel}, cursor={"step": 120}))
    found = store.newest_valid()  # (path, snapshot), or None

`BackgroundWriter` saves from a thread; `daly_s` computes the interval between checkpoints.
"""

from checkpoints.background import BackgroundWriter, Saved
from checkpoints.errors import (
    CheckpointError,
    DamagedSnapshot,
    IncompatibleSnapshot,
    InvalidSnapshot,
    NotASnapshot,
    SnapshotNotFound,
    StaleWriter,
    StorageError,
)
from checkpoints.fence import Fence
from checkpoints.files import tag_of
from checkpoints.interval import daly_s, mean_time_to_total_loss_s, young_s
from checkpoints.reader import read_snapshot
from checkpoints.retention import retained
from checkpoints.single_file import write_snapshot
from checkpoints.snapshot import Snapshot
from checkpoints.store import Store
from checkpoints.tiers import discard, private_directory
from checkpoints.together import Team
from checkpoints.transport import from_bytes, to_bytes

__all__ = [
    "BackgroundWriter",
    "CheckpointError",
    "DamagedSnapshot",
    "Fence",
    "IncompatibleSnapshot",
    "InvalidSnapshot",
    "NotASnapshot",
    "Saved",
    "Snapshot",
    "SnapshotNotFound",
    "StaleWriter",
    "StorageError",
    "Store",
    "Team",
    "daly_s",
    "discard",
    "from_bytes",
    "mean_time_to_total_loss_s",
    "private_directory",
    "read_snapshot",
    "retained",
    "tag_of",
    "to_bytes",
    "write_snapshot",
    "young_s",
]
