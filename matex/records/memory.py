"""Memory use of a process."""

from __future__ import annotations

import psutil

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """Resident memory of this process, bytes; reading it takes some 20 microseconds."""
    return int(psutil.Process().memory_info().rss)
