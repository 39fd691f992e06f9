"""Processes of this host, by their ids."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_alive"]


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
