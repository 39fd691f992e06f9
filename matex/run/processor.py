"""The processor as a rank has it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Threads"]


class Threads(NamedTuple):
    """The processor of this rank: its own threads, and the cores that it shares with others."""

    own: int = 1
    host: int = 1
