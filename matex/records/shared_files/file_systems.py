"""File systems: whether one is of this host alone, where its kernel orders what processes write."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["is_local"]

_MOUNTS = Path("/proc/self/mountinfo")

# Any other may be shared by hosts.
_LOCAL = {
    *("aufs", "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs"),
    *("overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "vfat", "xfs", "zfs"),
}


@cache
def is_local(directory: Path) -> bool:
    """Whether *directory* is on a disk or in the memory of this host, for certain."""
    try:
        kind = _kind_of(directory.resolve(), _MOUNTS.read_text(errors="replace"))
    except OSError:
        return False
    return kind in _LOCAL


def _kind_of(directory: Path, mounts: str) -> str:
    """Kind of the file system of *directory*, by the text of Linux's mountinfo. Pure."""
    found, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) < 5 or not after:
            continue
        place = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), words[4]))
        # The last one mounted at a place hides the others.
        if directory.is_relative_to(place) and len(place.parts) >= found:
            found, kind = len(place.parts), after.split()[0]
    return kind
