"""Shared memory that killed ranks of MPICH leave in /dev/shm. Local to a host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

__all__ = ["remove_new", "segments"]

_SHARED_MEMORY = Path("/dev/shm")
_NAMES = "mpich_shm_*"


def segments() -> set[Path]:
    """Current segments of MPICH that belong to this user."""
    found = set()
    for path in _SHARED_MEMORY.glob(_NAMES):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_uid == os.getuid():
                found.add(path)
    return found


def remove_new(before: Collection[Path]) -> None:
    """Remove the segments that are not in *before* and that no process has mapped."""
    new = segments().difference(before)
    if not new:
        return
    used = _mapped()
    for path in new:
        if str(path) not in used:
            path.unlink(missing_ok=True)


def _mapped() -> set[str]:
    """Files that processes of this user have mapped."""
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended, or belongs to another user
                lines = (entry / "maps").read_text().splitlines()
                found.update(line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line)
    return found
