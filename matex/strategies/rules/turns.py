"""When each worker comes to the centre: a function of its place and the step, known to all."""

from __future__ import annotations

__all__ = ["EVERY", "comes", "groups"]

#: Steps between the visits of one worker, where the user says nothing else.
EVERY = 4


def groups(members: int, every: int, bound: int | None = None) -> int:
    """In how many groups *members* come in turn: one by one, as far as the steps allow.

    While a worker is away each other group comes once, so there is one group more than the
    *bound* of the staleness. None for any staleness.
    """
    return min(members, every, members if bound is None else bound + 1)


def comes(place: int, step: int, *, every: int, groups: int) -> bool:
    """Whether the member at *place* comes after *step*; each once in *every* steps.

    The groups spread evenly over these.
    """
    return (step + 1) % every == (place % groups) * every // groups
