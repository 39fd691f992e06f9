"""A directory of snapshots: written whole or not at all, read only when undamaged."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from checkpoints import files
from checkpoints.errors import (
    CheckpointError,
    DamagedSnapshot,
    SnapshotNotFound,
    StorageError,
    storage_error,
)
from checkpoints.reader import read_snapshot
from checkpoints.retention import retained
from checkpoints.snapshot import Snapshot
from checkpoints.writer import encode

_log = logging.getLogger("checkpoints")

Paths = list[Path]


class Store:
    """The snapshots of one run in one directory, named ``step-000000123.h5``.

    Nothing is touched until the first call. A missing directory is created by `prepare` (or
    the first `save`), never again after that: one that vanished may be a mount point without
    its file system, and writing there would only look like saving.

    One process at a time should save; any number may read at the same time.

    Args:
        directory: where the files are.
        keep_last: how many snapshots stay, at least 1; see `retention.retained`.
        software: names and versions noted in every file beside those of Python, NumPy, h5py.

    Raises:
        ValueError: keep_last is less than 1.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep_last: int = 3,
        software: Mapping[str, str] | None = None,
    ) -> None:
        retained((), keep_last)
        self.directory = Path(directory)
        self.keep_last = keep_last
        self._software = dict(software or {})
        self._prepared = False

    def prepare(self) -> None:
        """Create the directory if need be, and remove temporaries whose process is gone.

        Raises:
            StorageError: the directory cannot be created or listed.
        """
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                files.sync_directory(self.directory.parent)
            removed = files.remove_stale(self.directory)
        except OSError as error:
            raise storage_error(
                "a directory for snapshots was wanted", self.directory, error
            ) from error
        self._prepared = True
        for name in removed:
            _log.info("removed %s, left by a process that is gone", name)

    def save(self, snapshot: Snapshot) -> Path:
        """Write a snapshot and return its path; then remove those beyond `keep_last`.

        When this returns, the file is on the disk under its name. When it raises, every older
        file is as it was and no temporary is left. A snapshot of the same step is replaced.

        Raises:
            StorageError: disk full, directory read-only or vanished, and the like.
        """
        if not self._prepared:
            self.prepare()
        path = self.directory / files.file_name(snapshot.step)
        pieces = encode(snapshot, software=self._software)
        try:
            files.publish(path, pieces)
        except OSError as error:
            raise storage_error("a snapshot on the disk was wanted", path, error) from error
        self._retire(written=snapshot.step)
        return path

    def load(self, path: str | os.PathLike[str]) -> Snapshot:
        """Read a snapshot and check every byte. Raises as `reader.read_snapshot` does."""
        return read_snapshot(path)

    def newest_valid(
        self, *, on_skip: Callable[[Path, CheckpointError], None] | None = None
    ) -> tuple[Path, Snapshot] | None:
        """The undamaged snapshot of the highest step; None if there is none.

        Damaged files on the way are left where they are.

        Args:
            on_skip: told of each file passed over and why; otherwise one line of warning goes
                to the logger "checkpoints".

        Raises:
            IncompatibleSnapshot: the newest undamaged file is of a newer format or refused: to
                go back to an older one would silently repeat training.
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
        """The paths of all snapshots, undamaged or not, by rising step.

        A directory that does not exist yet has none; one that has vanished is an error.

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
        return [self.directory / files.file_name(step) for step in steps]

    def _retire(self, *, written: int) -> None:
        """Remove what retention lets go. The new file is safe, so trouble is only told."""
        try:
            paths = {files.step_of(path.name) or 0: path for path in self.list()}
            for step in set(paths) - retained(paths, self.keep_last, written=written):
                paths[step].unlink(missing_ok=True)
        except StorageError as error:
            _log.warning("kept old snapshots: %s", error)
        except OSError as error:
            problem = storage_error("an old snapshot removed was wanted", self.directory, error)
            _log.warning("kept old snapshots: %s", problem)
