"""Turns of the workers that push to a centre: a pure function of place and step."""

from __future__ import annotations

__all__ = ["EVERY", "groups", "is_turn"]

#: Default number of steps between two pushes of a worker.
EVERY = 4


def groups(members: int, every: int, bound: int | None = None) -> int:
    """Number of groups into which *members* are divided, which push one after the other.

    It is at most *every*, the steps between two pushes of a member. While one group's push is under
    way, each other group pushes once, so that a push is at most as many updates stale.

    Args:
        bound: largest staleness, in updates; None, the default, for no limit.
    """
    return min(members, every, members if bound is None else bound + 1)


def is_turn(place: int, step: int, *, every: int, groups: int) -> bool:
    """Whether the member at *place* pushes after *step*, as it does once in *every* steps.

    The groups are spread evenly over these steps.
    """
    return (step + 1) % every == (place % groups) * every // groups
