"""Which start of a run this is: checkpoints of former starts are kept out by a fence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

import checkpoints
import ft

__all__ = ["Starts"]


class Starts:
    """The starts of the runs that save in one directory, counted from 1.

    Args:
        directory: that of the checkpoints, which all ranks share.

    ``number`` is the start that these ranks are of, 0 before it is known. ``fence`` lets those of
    the latest start pass whose communicator is not one that others have left.
    """

    def __init__(self, communicator: ft.Communicator, directory: Path) -> None:
        self._communicator = communicator
        self.number = 0
        self.fence = checkpoints.Fence(directory, self._world)

    def count(self) -> None:
        """Begin another start; collective. Where the file cannot be used, saving will say so."""
        number = np.ones(1, np.int64)
        leads = self._communicator.world.is_leader
        if leads:
            with contextlib.suppress(checkpoints.StorageError):
                number[0] += self.fence.newest()[0]
        self._communicator.broadcast(number)
        self.number = int(number[0])
        if leads:
            with contextlib.suppress(checkpoints.StorageError):
                self.fence.check()

    def _world(self) -> tuple[int, int]:
        return self.number, self._communicator.world.generation
