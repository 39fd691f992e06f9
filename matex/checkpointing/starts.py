"""The number of this start of a run; a fence keeps checkpoints of former starts out."""

from __future__ import annotations

import contextlib
from pathlib import Path

import checkpoints
import ft
from matex.errors import InputError

__all__ = ["Starts"]


class Starts:
    """Number of starts of the runs that save in one directory, from 1.

    Args:
        directory: directory of the checkpoints, which all ranks share.

    ``number`` is the start that these ranks are of, 0 before it is known. ``fence`` lets those of
    the latest start pass whose communicator is not one that others have left.
    """

    def __init__(self, communicator: ft.Communicator, directory: Path) -> None:
        self._communicator = communicator
        self.number = 0
        self.fence = checkpoints.Fence(directory, self._world)

    def count(self) -> None:
        """Count another start; collective. A failed write is reported by the next save.

        Raises:
            InputError: on every rank, if the file cannot be read: with a number that is too low
                this run could not save.
        """
        reason = "the leader's log says why"

        def look() -> bytes:
            nonlocal reason
            try:
                return b"%d" % (self.fence.newest()[0] + 1)
            except checkpoints.StorageError as error:
                reason = str(error)
                return b"0"

        self.number = int(ft.one_answer(self._communicator, look))
        if not self.number:
            raise InputError(f"the checkpoint directory cannot be used: {reason}")
        if self._communicator.world.is_leader:
            with contextlib.suppress(checkpoints.StorageError):
                self.fence.check()

    def _world(self) -> tuple[int, int]:
        return self.number, self._communicator.world.generation
