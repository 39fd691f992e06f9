"""A directory of snapshots, each written as a whole or not at all, and checked when read."""

from __future__ import annotations

import errno
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from checkpoints import files, together
from checkpoints.errors import (
    CheckpointError,
    DamagedSnapshot,
    SnapshotNotFound,
    StorageError,
    foreign_directory,
    storage_error,
)
from checkpoints.fence import Fence
from checkpoints.reader import read_array, read_snapshot
from checkpoints.retention import retained, score_in
from checkpoints.snapshot import Snapshot
from checkpoints.together import Team
from checkpoints.writer import Encoded, encode

SCORE = "score"

_log = logging.getLogger("checkpoints")

Paths = list[Path]


class Store:
    """The snapshots of one run in one directory, named ``step-000000123.h5``.

    The directory is not accessed before the first call. A missing directory is created by `prepare`
    (or the first `save`), and never again: a directory that vanished may be a mount point without
    its file system, and files written there would be lost.

    One process at a time should save; any number of processes may read at the same time.

    Args:
        directory: path of the directory.
        keep_last: number of newest snapshots that stay, at least 1, 3 by default; see `retained`.
        keep_every: interval in steps at which further snapshots stay; 0, the default, for none.
        keep_best: number of snapshots with the lowest ``extra["score"]`` (float64, shape ()) that
            stay in addition; 0 by default.
        fence: fence checked before a `save` creates or removes a file; none by default.
        software: versions by name, recorded in every file beside the versions of Python, NumPy and
            h5py.

    Raises:
        ValueError: keep_last is below 1, keep_every or keep_best below 0, or one is no integer.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     store = checkpoints.Store(directory, keep_last=2)
        ...     for step in (100, 200, 300):
        ...         cursor = {"step": step, "epoch": 0}
        ...         state = checkpoints.Snapshot(weights={"w": np.ones(3)}, cursor=cursor)
        ...         path = store.save(state)
        ...     path, snapshot = store.newest_valid()
        ...     [path.name for path in store.list()], snapshot.step
        (['step-000000200.h5', 'step-000000300.h5'], 300)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep_last: int = 3,
        keep_every: int = 0,
        keep_best: int = 0,
        fence: Fence | None = None,
        software: Mapping[str, str] | None = None,
    ) -> None:
        retained((), keep_last, keep_every=keep_every, keep_best=keep_best)
        self.directory = Path(directory)
        self.keep_last = keep_last
        self.keep_every = keep_every
        self.keep_best = keep_best
        self._check = fence.check if fence is not None else lambda: None
        self._scores: dict[int, float] = {}
        self._software = dict(software or {})
        self._prepared = False

    def prepare(self) -> None:
        """Create the directory if necessary, and remove temporary files whose process has ended.

        Raises:
            StorageError: the directory cannot be created or listed, or belongs to another user.
        """
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                files.sync_directory(self.directory.parent)
            owner = self.directory.stat().st_uid
            if os.geteuid() not in (0, owner):
                raise foreign_directory(self.directory, owner)
            removed = files.remove_stale(self.directory)
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(
                "a directory for snapshots was wanted", self.directory, error
            ) from error
        self._prepared = True
        for name in removed:
            _log.info("removed %s, left by a process that is gone", name)

    def save(self, snapshot: Snapshot) -> Path:
        """Write a snapshot and return its path; then remove the snapshots that retention drops.

        When this returns, the file is on the disk under its name. When it raises, every older file
        is unchanged and no temporary file is left. A snapshot of the same step is replaced.

        Args:
            snapshot: snapshot to save.

        Returns:
            Path of the file.

        Raises:
            StaleWriter: the fence refuses this process.
            StorageError: disk full, directory read-only or vanished, or a similar error.
        """
        path, encoded = self._ready(snapshot)
        pieces = encoded().pieces
        try:
            files.publish(path, pieces, self._check)
        except StorageError:
            raise
        except OSError as error:
            raise storage_error("a snapshot on the disk was wanted", path, error) from error
        self._saved(snapshot)
        return path

    def save_together(self, snapshot: Snapshot, team: Team) -> Path | None:
        """Save together with other processes that hold an equal snapshot; each writes a byte range.

        All processes of *team* call it; the process at place 0 publishes.

        Args:
            snapshot: snapshot to save, equal on all processes.
            team: the processes, with the place of this one.

        Returns:
            Path of the file, for the publisher. None for the other processes, and for the publisher
            if not all of them wrote their range of an equal snapshot: then no file has changed, and
            the publisher can `save` alone.

        Raises:
            StorageError: as in `save`, on the process that met it.
        """
        path, encoded = self._ready(snapshot)
        try:
            if team.place:
                together.contribute(path, encoded, team)
                return None
            published = together.publish(path, encoded, team, self._check)
        except StorageError:
            raise
        except OSError as error:
            what = "its part of" if team.place else ""
            raise storage_error(
                f"{what} a snapshot on the disk was wanted".strip(), path, error
            ) from error
        if not published:
            return None
        self._saved(snapshot)
        return path

    def _ready(self, snapshot: Snapshot) -> tuple[Path, Callable[[], Encoded]]:
        if not self._prepared:
            self.prepare()
        path = self.path_of(snapshot.step)
        return path, lambda: encode(snapshot, software=self._software)

    def _saved(self, snapshot: Snapshot) -> None:
        if self.keep_best:
            self._scores[snapshot.step] = score_in(snapshot.extra.get(SCORE))
        self._retire(written=snapshot.step)

    def path_of(self, step: int) -> Path:
        """Path of the snapshot of a step, whether or not there is one.

        Args:
            step: step of the snapshot, 0 or more.

        Returns:
            The path.

        Raises:
            ValueError: *step* is negative.

        Example:
            >>> checkpoints.Store("run").path_of(123)
            PosixPath('run/step-000000123.h5')
        """
        if step < 0:
            raise ValueError(f"step must be 0 or more. Received: {step}")
        return self.directory / files.file_name(step)

    def load(self, path: str | os.PathLike[str]) -> Snapshot:
        """Read a snapshot and check every byte. Raises the same exceptions as `read_snapshot`.

        Args:
            path: path of the file.

        Returns:
            The snapshot.
        """
        return read_snapshot(path)

    def newest_valid(
        self, *, on_skip: Callable[[Path, CheckpointError], None] | None = None
    ) -> tuple[Path, Snapshot] | None:
        """Find the undamaged snapshot with the highest step.

        Damaged files are left in place.

        Args:
            on_skip: function of each skipped file and the reason; by default a warning goes to the
                logger "checkpoints".

        Returns:
            Path and snapshot; None if there is none.

        Raises:
            IncompatibleSnapshot: the newest undamaged file has a newer format or refused values; an
                older file would silently repeat training.
            StorageError: the directory or a file cannot be read.
        """
        for path in reversed(self.list()):
            try:
                return path, self.load(path)
            except (DamagedSnapshot, SnapshotNotFound) as error:
                if on_skip is None:
                    _log.warning("skipped %s: %s", path.name, error)
                else:
                    on_skip(path, error)
        return None

    def list(self) -> Paths:
        """List the files of all snapshots, damaged ones included.

        A directory that has not been created yet is empty; one that has vanished is an error.

        Returns:
            Paths in the order of their steps.

        Raises:
            StorageError: the directory cannot be listed.
        """
        try:
            names = [path.name for path in self.directory.iterdir()]
        except OSError as error:
            if error.errno == errno.ENOENT and not self._prepared:
                return []
            raise storage_error(
                "a directory of snapshots was wanted", self.directory, error
            ) from error
        steps = sorted(step for step in map(files.step_of, names) if step is not None)
        return [self.path_of(step) for step in steps]

    def _score_of(self, step: int, path: Path) -> float:
        """Score of a file, possibly written by another process; NaN if absent or damaged."""
        if not self.keep_best:
            return math.nan
        if step not in self._scores:
            try:
                self._scores[step] = score_in(read_array(path, "extra", SCORE))
            except CheckpointError:
                return math.nan
        return self._scores[step]

    def _retire(self, *, written: int) -> None:
        """Remove the files that retention drops. The new file is safe: errors are only logged."""
        try:
            paths = {files.step_of(path.name) or 0: path for path in self.list()}
            stay = retained(
                paths,
                self.keep_last,
                keep_every=self.keep_every,
                keep_best=self.keep_best,
                scores={step: self._score_of(step, path) for step, path in paths.items()},
                written=written,
            )
            for step in set(paths) - stay:
                paths[step].unlink(missing_ok=True)
                self._scores.pop(step, None)
        except StorageError as error:
            _log.warning("kept old snapshots: %s", error)
        except OSError as error:
            problem = storage_error("an old snapshot removed was wanted", self.directory, error)
            _log.warning("kept old snapshots: %s", problem)
