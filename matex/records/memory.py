"""Memory that a process occupies."""

from __future__ import annotations

import psutil

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """Bytes of memory that this process occupies now, which takes some 20 microseconds to read."""
    return int(psutil.Process().memory_info().rss)
