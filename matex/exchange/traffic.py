"""Count of the messages and bytes that a rank gave to MPI. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Traffic"]


class Traffic(NamedTuple):
    """Messages and bytes that one rank gave to MPI in addition to the collective of a step."""

    messages: int = 0
    bytes: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Element-wise sum."""
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)
