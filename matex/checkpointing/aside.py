"""The ends of earlier fits of the script, in files beside the checkpoints of the running one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import checkpoints
import ft

__all__ = ["Aside"]

_FOLDER = "earlier"
# Of one model: a script that calls fit thousands of times is not to fill the disk.
_MOST_FILES, _MOST_BYTES = 100, 1e9


class Aside:
    """A file for each fit that is over, by its number, with its model as it was at its end.

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

    def save(
        self, fit: int, take: Callable[[], checkpoints.Snapshot], *, before: Iterable[int]
    ) -> None:
        """Save the end of *fit*, and remove those of its model that are beyond what is kept.

        The leader writes. One that dies over it is followed by the next.

        Args:
            take: makes the snapshot, whose step and fit are *fit*.
            before: numbers of the earlier fits of the same model, rising.
        """
        done = np.zeros(1, np.int64)
        while not done[0]:
            if self._communicator.world.is_leader:
                try:
                    written = self._store.save(take())
                    self._remove_beyond(written, before)
                except checkpoints.StorageError as error:
                    self._warn(f"the end of fit number {fit + 1} is in no checkpoint: {error}")
                done[0] = 1
            self._communicator.broadcast(done)

    def _remove_beyond(self, written: Path, before: Iterable[int]) -> None:
        """Remove the oldest files of a model, which were superseded by *written* at last."""
        kept, nbytes = 1, written.stat().st_size
        for path in map(self._path, sorted(before, reverse=True)):
            with contextlib.suppress(OSError):  # it is there no more, or stays
                kept, nbytes = kept + 1, nbytes + path.stat().st_size
                if kept > _MOST_FILES or nbytes > _MOST_BYTES:
                    path.unlink()

    def _path(self, fit: int) -> Path:
        return self._store.directory / f"step-{fit:09d}.h5"

    def saved(self, fit: int) -> checkpoints.Snapshot | None:
        """The end of *fit* as it was saved, where all ranks can read it; else None."""
        found = self.read(fit)
        return found if self._communicator.agree(found is not None) else None

    def read(self, fit: int) -> checkpoints.Snapshot | None:
        """The end of *fit* as it was saved; None where it cannot be read. Local."""
        with contextlib.suppress(checkpoints.CheckpointError):
            found = self._store.load(self._path(fit))
            # Files that were named by the numbers of models say nothing of fits.
            return found if found.cursor.get("fit") == fit else None
        return None
