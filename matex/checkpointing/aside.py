"""The models of earlier fits of the script, in files beside the checkpoints of the running one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import checkpoints
import ft

__all__ = ["Aside"]

_FOLDER = "earlier"


class Aside:
    """A file for each model that the script has trained before the running fit, by its number.

    Each method but :meth:`read` is collective.

    Args:
        communicator: ranks, which share the directory.
        directory: directory of the checkpoints.
        fence: fence of the checkpoints.
        warn: function that prints one line for the user.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        directory: Path,
        fence: checkpoints.Fence,
        warn: Callable[[str], None],
    ) -> None:
        self._communicator = communicator
        self._warn = warn
        self._store = checkpoints.Store(directory / _FOLDER, fence=fence, keep_last=sys.maxsize)

    def save(self, number: int, take: Callable[[], checkpoints.Snapshot]) -> None:
        """Save model *number* in place of what it was.

        The leader writes. One that dies over it is followed by the next.

        Args:
            take: makes the snapshot, whose step is *number*.
        """
        done = np.zeros(1, np.int64)
        while not done[0]:
            if self._communicator.world.is_leader:
                try:
                    self._store.save(take())
                except checkpoints.StorageError as error:
                    self._warn(f"model {number + 1} of the script is in no checkpoint: {error}")
                done[0] = 1
            self._communicator.broadcast(done)

    def saved(self, number: int) -> checkpoints.Snapshot | None:
        """Model *number* as it was saved, where all ranks can read it; else None."""
        found = self.read(number)
        return found if self._communicator.agree(found is not None) else None

    def read(self, number: int) -> checkpoints.Snapshot | None:
        """Model *number* as it was saved; None where it cannot be read. Local."""
        with contextlib.suppress(checkpoints.CheckpointError):
            return self._store.load(self._store.directory / f"step-{number:09d}.h5")
        return None
