"""Messages between a newcomer and the leader of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["DATA", "FIT", "FOR_GOOD", "GONE", "OVER", "TRAINED", "Welcome"]

#: Fields of messages between a newcomer and the leader: the fit whose first step the newcomer has
#: reached, with the variable counts of trained models and the sketch of its data; the history of a
#: finished fit; the reason for which it ends, and whether another newcomer would end as well.
FIT, TRAINED, DATA, OVER = "fit", "trained", "data", "over"
GONE, FOR_GOOD = "gone", "for good"


class Welcome(NamedTuple):
    """First message to a newcomer, with all that it must know before it runs the script."""

    ranks: int
    """Number of ranks at the start."""
    active: int
    """Largest number of ranks that train."""
    threads: int
    """Threads of each rank."""
    hosts: int
    """Number of hosts."""
    virtual: int
    """Number of virtual workers, 0 if ranks share the work."""
    key: str
    """Secret text, equal on all ranks."""
    plan: str
    """Plan of the sums, equal on all ranks."""
    elapsed_s: float
    """Seconds since the start."""
    histories: list[tuple[int, dict[str, Any]]]
    """Number and history of each finished fit."""
