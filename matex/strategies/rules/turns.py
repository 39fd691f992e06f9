"""Turns of the workers that push to a centre: a function of place and step, known to all."""

from __future__ import annotations

__all__ = ["EVERY", "groups", "is_turn"]

#: Steps between the pushes of one worker, where the user says nothing else.
EVERY = 4


def groups(members: int, every: int, bound: int | None = None) -> int:
    """Number of groups in which *members* push in turn: one by one, as far as the steps allow.

    While a push is under way each other group pushes once, so there is one group more than the
    *bound* of the staleness. None for any staleness.
    """
    return min(members, every, members if bound is None else bound + 1)


def is_turn(place: int, step: int, *, every: int, groups: int) -> bool:
    """Whether the member at *place* pushes after *step*; each once in *every* steps.

    The groups spread evenly over these.
    """
    return (step + 1) % every == (place % groups) * every // groups
