"""The limits after which a test calls a program hung, on machines of every speed."""

from __future__ import annotations

import os

__all__ = ["patience"]

#: The limits in the tests are seconds of a machine that does nothing else; beside the other parts
#: of the suite, on a slower machine, a program gets so many times longer.
_FACTOR = float(os.environ.get("TEST_PATIENCE", "4"))


def patience(seconds: float) -> float:
    """Return the limit, in seconds, of a program that a quiet machine ends within *seconds*."""
    return _FACTOR * seconds
