"""Processes of this host, by their ids."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_alive", "started_at"]


def is_alive(pid: int) -> bool:
    """Whether *pid* may be a running process and no zombie; True in doubt. Local."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user: the process id was reused
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:  # it has just ended, as the next check sees, or there is no /proc
        return True
    return state not in (b"Z", b"X")


def started_at(pid: int | None = None) -> int:
    """Time at which a process was started, in ticks since the host's start; 0 if unknown. Local.

    With it a process is told from a later one that got the same id.

    Args:
        pid: process id; None for this process, also where /proc is that of another namespace.
    """
    path = Path("/proc") / ("self" if pid is None else str(pid)) / "stat"
    try:
        return int(path.read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
