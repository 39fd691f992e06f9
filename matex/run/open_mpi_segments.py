"""Directory of Open MPI's segments on a rank, named by the launcher: made, held and removed.

The launcher has reserved it: :mod:`matex.launcher.host_memory`.
"""

from __future__ import annotations

import contextlib
import os

from matex.config import SEGMENTS, segments_directory
from matex.records.shared_files.directory_holds import hold

__all__ = ["forsake_segments", "ready_segments"]


def ready_segments() -> None:
    """Create the directory named in the environment, and hold it; local, before MPI starts.

    If it cannot be made, Open MPI uses its own directory.
    """
    directory = segments_directory()
    if directory is not None:
        import checkpoints  # needs h5py, which a process that only starts ranks need not have

        try:
            checkpoints.private_directory(directory)
            hold(directory)
        except (checkpoints.StorageError, OSError):
            del os.environ[SEGMENTS]


def forsake_segments() -> None:
    """Remove the directory after MPI's end, on the last rank of a host that lost none; local."""
    directory = segments_directory()
    if directory is not None:
        with contextlib.suppress(OSError):  # others are still there, or a dead one's segment is
            directory.rmdir()
