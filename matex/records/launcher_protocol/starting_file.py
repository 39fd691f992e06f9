"""Sign that ranks have not met yet: a file that the launcher makes, and the first rank removes.

Removing works on a full disk, too, and a directory that is lost or out of reach says that they met:
whoever looks then does not take a missing rank for one that the others still wait for.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["STARTING", "announce", "are_starting", "end_start"]

STARTING = ".starting"


def announce(report: Path) -> None:
    """Note that the ranks, of which none runs yet, have not met; a failed write is ignored."""
    with contextlib.suppress(OSError):
        (report / STARTING).touch()


def end_start(report: Path) -> None:
    """Note that the ranks have met, or do not start any more; a failure is ignored."""
    with contextlib.suppress(OSError):
        (report / STARTING).unlink(missing_ok=True)


def are_starting(report: Path) -> bool:
    """Whether the ranks have not met; False where nobody noted it, or it cannot be read."""
    try:
        return (report / STARTING).exists()
    except OSError:  # a network file system that does not answer
        return False
