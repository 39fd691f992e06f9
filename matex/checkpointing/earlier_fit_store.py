"""Ends of earlier fits of the script, beside the checkpoints of the running fit."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import checkpoints
import ft
from matex.checkpointing.resume import received
from matex.checkpointing.writer_rotation import writes_for_host

__all__ = ["EarlierFitStore"]

_FOLDER = "earlier"
# Of one model in files, and of all in memory: a script that calls fit thousands of times is not to
# fill the disk, nor the memory of the hosts.
_MOST_FILES, _MOST_BYTES = 100, 1e9


class EarlierFitStore:
    """A file for each finished fit, by number, with the model at the fit's end.

    It is in the directory of files, or else in the memory of each host. Each method but
    :meth:`read` is collective.

    Args:
        communicator: ranks of the run.
        files: directory of the checkpoints, shared by ranks; None without one.
        memory: directory in the memory of each host, used without *files*.
        fence: fence of the checkpoints in files.
        warn: function that prints a line for the user.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        *,
        files: Path | None,
        memory: Path | None,
        fence: checkpoints.Fence | None,
        warn: Callable[[str], None],
    ) -> None:
        self._communicator = communicator
        self._warn = warn
        self._is_shared = files is not None
        directory = memory if files is None else files
        assert directory is not None, "nowhere to save to"
        self._store = checkpoints.Store(directory / _FOLDER, fence=fence, keep_last=sys.maxsize)

    def save(
        self, fit: int, make_snapshot: Callable[[], checkpoints.Snapshot], *, before: Iterable[int]
    ) -> None:
        """Save the end of *fit*, and remove the oldest ones beyond the limit.

        The leader writes files, one rank of each host its memory. If a writer dies meanwhile, the
        remaining ranks write again.

        Args:
            make_snapshot: function that makes the snapshot, whose step and fit are *fit*.
            before: numbers of the earlier fits of the same model, rising.
        """
        communicator = self._communicator
        while True:
            if writes := self._writes(fit):
                try:
                    written = self._store.save(make_snapshot())
                    self._remove_beyond(written, before if self._is_shared else range(fit))
                except checkpoints.StorageError as error:
                    self._warn(f"the end of fit number {fit + 1} is in no checkpoint: {error}")
            writers = communicator.allgather(np.array([writes]))
            if self._is_done(writers):
                return

    def _is_done(self, writers: ft.Gathered) -> bool:
        """Whether the leader has written, or a rank of each host; equal on all ranks.

        It follows from the rows alone: ranks learn of a death one operation apart.
        """
        hosts = self._communicator.hosts
        written = {hosts[writers.ranks[row]] for row in np.flatnonzero(writers.rows[:, 0])}
        if self._is_shared:
            return bool(written)
        return written >= {hosts[rank] for rank in writers.ranks}

    def _writes(self, fit: int) -> bool:
        world = self._communicator.world
        if self._is_shared:
            return world.is_leader
        return writes_for_host(fit, world.members, world.rank)

    def _remove_beyond(self, written: Path, before: Iterable[int]) -> None:
        """Remove the oldest files, which were superseded by *written* at last."""
        kept, nbytes = 1, written.stat().st_size
        for path in map(self._store.path_of, sorted(before, reverse=True)):
            with contextlib.suppress(OSError):  # it is there no more, or stays
                kept, nbytes = kept + 1, nbytes + path.stat().st_size
                if kept > _MOST_FILES or nbytes > _MOST_BYTES:
                    path.unlink()

    def saved(self, fit: int) -> checkpoints.Snapshot | None:
        """Saved end of *fit*, equal on all ranks; None if it is not available.

        From the memory of hosts, new hosts, which have none, get it from others.
        """
        found = self.read(fit)
        if self._is_shared:
            return found if self._communicator.agree(found is not None) else None
        has = self._communicator.allgather(np.array([found is not None], np.int64))
        if not has.rows.any():
            return None
        holders = [has.ranks[row] for row in np.flatnonzero(has.rows[:, 0])]
        path = None if found is None else self._store.path_of(fit)
        return received(self._communicator, holders, path)

    def read(self, fit: int) -> checkpoints.Snapshot | None:
        """Saved end of *fit*; None if it cannot be read. Local."""
        with contextlib.suppress(checkpoints.CheckpointError):
            found = self._store.load(self._store.path_of(fit))
            # Files that were named by the numbers of models say nothing of fits.
            return found if found.cursor.get("fit") == fit else None
        return None
