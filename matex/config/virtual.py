"""Default number of virtual workers. Pure."""

from __future__ import annotations

__all__ = ["VIRTUAL", "workers_for"]

#: Name of the number of virtual workers in the cursor of a checkpoint.
VIRTUAL = "virtual"


def workers_for(ranks: int) -> int:
    """The smallest power of two that is at least the number of *ranks*."""
    return 1 << (ranks - 1).bit_length()
