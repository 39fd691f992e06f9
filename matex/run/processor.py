"""Processor resources of a rank."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Threads"]


class Threads(NamedTuple):
    """Threads of this rank, and cores that it shares with other ranks of its host."""

    own: int = 1
    host: int = 1
