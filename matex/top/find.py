"""Default report directory, if none is given."""

from __future__ import annotations

import os
from pathlib import Path

from matex.errors import InputError
from matex.records.events import EVENTS

__all__ = ["newest_report"]

# Report directories lie near; a whole home directory is not searched.
_DEPTH = 3


def newest_report(root: Path) -> Path:
    """Report directory in or below *root* with the newest events.

    Raises:
        InputError: there is no report.
    """
    found: list[tuple[float, Path]] = []
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        if EVENTS in files:
            found.append(((here / EVENTS).stat().st_mtime, here))
        deep = len(here.relative_to(root).parts) >= _DEPTH
        folders[:] = [] if deep else [name for name in folders if not name.startswith(".")]
    if not found:
        raise InputError(
            f"a report directory of matex run is wanted. Received: none in {root.absolute()} or "
            f"{_DEPTH} folders below it; start the run with --report DIR, and name that DIR"
        )
    return max(found)[1]
