"""The directory of a run that its ranks share: the ledger of files, and results of programs. Local.

All ranks hold it, so that another start, or another run in the same temporary directory, knows
those of ranks that were killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from matex.records.shared_files.directory_holds import hold, unheld

__all__ = ["changes_directory", "hold_if_shared", "make"]


def changes_directory(report: Path | None, key: str) -> Path:
    """Path of the directory, equal on all ranks.

    Args:
        report: report directory; None for a temporary one.
        key: text that is equal on all ranks of a run.
    """
    folder = Path(tempfile.gettempdir()) if report is None else report.absolute()
    return folder / f"{_prefix()}{key[:16]}"


def make(path: Path) -> int | None:
    """Make and hold the directory *path*, on the leader; remove those that nobody holds any more.

    Returns:
        A file descriptor, with which the hold ends; None if the directory cannot be made.
    """
    try:
        held = hold(path)
    except OSError:
        return None
    for other in path.parent.glob(f"{_prefix()}*"):
        if other != path:
            with unheld(other) as left:
                if left:
                    shutil.rmtree(other, ignore_errors=True)
    return held


def hold_if_shared(path: Path) -> int | None:
    """Hold the directory *path*, which the leader has made; None if this rank does not see it."""
    if path.is_dir():
        with contextlib.suppress(OSError):
            return hold(path)
    return None


def _prefix() -> str:
    return f".matex-changes-{os.getuid()}-"
