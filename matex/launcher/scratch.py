"""Temporary directory of a run, and the removal of those whose launchers were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from matex.launcher.locks import locked
from matex.launcher.rank_processes import processes_with

__all__ = ["MARK", "scratch_directory"]

#: File that its launcher holds locked in each such directory, and by which it is known.
MARK = ".matex-scratch"
_PREFIX = "matex-"


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Context with a temporary directory for this run."""
    _remove_left(Path(tempfile.gettempdir()))
    path, lock = _made()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _made() -> tuple[Path, int | None]:
    """A new directory, and its lock; None where the file system has no locks."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            return path, locked(path / MARK)
        except (BlockingIOError, FileNotFoundError):  # another run has taken it for a left one
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            return path, None


def _remove_left(parent: Path) -> None:
    """Remove the directories in *parent* that no launcher holds and no process here works in.

    Ranks may outlive their launcher, and mpiexec with them.
    """
    for path in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is another user's, is in use, or is gone
            if not (path / MARK).is_file() or path.stat().st_uid != os.geteuid():
                continue
            lock = locked(path / MARK)
            try:
                if not processes_with(f"TMPDIR={path}"):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
