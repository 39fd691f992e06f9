"""How programs of this repository are started: the folder they are in, and their environment."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ROOT", "environment"]

ROOT = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, in which a child finds `ci` and `tests`, and *more*."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}
