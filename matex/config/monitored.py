"""The value in an epoch's logs that makes it a best one, such as ``max:val_accuracy``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Monitored", "monitored"]

_SIGNS = {"max": -1.0, "min": 1.0}


class Monitored(NamedTuple):
    """A name in the logs, and the sign that makes the best of its values the lowest."""

    name: str
    sign: float

    def line_without(self, logs: Iterable[str]) -> str:
        """Line about an epoch with these *logs*, in which the name is missing."""
        there = ", ".join(sorted(logs)) or "none"
        return (
            f"warning: keep_best keeps no epoch without {self.name} in its logs, only the newest. "
            f"Received: {there}; name one of these as monitor, or give fit what {self.name} is of"
        )


def monitored(text: str) -> Monitored:
    """Name and sign in *text*.

    Raises:
        ValueError: it has no name.
    """
    mode, colon, name = text.partition(":")
    found = Monitored(name, _SIGNS[mode]) if colon and mode in _SIGNS else Monitored(text, 1.0)
    if not found.name:
        raise ValueError
    return found
