"""A checkpoint that the user names: a file, or the newest in a directory."""

from __future__ import annotations

from pathlib import Path

import checkpoints
from matex.errors import InputError

__all__ = ["find"]


def find(path: Path) -> tuple[Path, checkpoints.Snapshot]:
    """Checkpoint *path*, or the newest valid one in the directory *path*.

    Raises:
        InputError: there is no valid checkpoint.
        checkpoints.CheckpointError: it is damaged, or of another kind.
    """
    if not path.is_dir():
        return path, checkpoints.read_snapshot(path)
    skipped: list[str] = []
    found = checkpoints.Store(path).newest_valid(
        on_skip=lambda file, error: skipped.append(file.name)
    )
    if found is None:
        damaged = f", where {', '.join(skipped)} are damaged" if skipped else ""
        raise InputError(f"a valid checkpoint is wanted. Received: {path}{damaged}")
    return found
