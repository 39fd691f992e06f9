"""The allotment of removals to groups that brings a network to a size at the least cost. Pure.

The cost is least where the next unit of every group has the same cost per parameter or FLOP
saved. A removal's cost is relative to the output of each reader of the group, so it counts once for
each reader: a channel of a residual stream, which all blocks read, costs every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from matex.apoptosis.graph.trace import Group
from matex.apoptosis.group_statistics import Removal
from matex.apoptosis.search import Candidate

__all__ = ["allotted", "removable_in"]


def allotted(
    found: Sequence[Candidate],
    savings: Sequence[float],
    is_met: Callable[[Sequence[Candidate]], bool],
) -> list[Candidate]:
    """Fewest of *found*, in the order of their removal, that meet the target; else all.

    A unit costs no less than those before it in its group;
    of units of one price, groups lose equal shares.

    Args:
        found: candidates with all removable units of each group, and their costs.
        savings: decrease of the network's size for a unit of each candidate, above 0.
        is_met: whether the network without the units of some is small enough. With more of them it
            is, too.
    """
    prices = [
        np.maximum.accumulate(np.diff(one.removal.costs, prepend=0.0) * len(one.group.readings))
        / saving
        for one, saving in zip(found, savings, strict=True)
    ]

    places = [np.arange(1, len(own) + 1) / len(own) for own in prices]
    groups = np.repeat(np.arange(len(found)), np.array([len(own) for own in prices], int))
    price, place = (np.concatenate([np.empty(0), *each]) for each in (prices, places))
    groups = groups[np.lexsort((groups, place, price))]

    def first(number: int) -> list[Candidate]:
        counts = np.bincount(groups[:number], minlength=len(found))
        cut = [
            one._replace(removal=_first_of(one.removal, int(count)))
            for one, count in zip(found, counts, strict=True)
        ]
        return [one for one in cut if one.is_worth_it]

    low, high = 0, len(price)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_met(first(middle)) else (middle + 1, high)
    return first(low)


def _first_of(removal: Removal, count: int) -> Removal:
    kept = np.sort(np.concatenate([removal.kept, removal.removed[count:]]))
    return Removal(kept, removal.removed[:count], removal.costs[:count])


def removable_in(group: Group) -> np.ndarray:
    """Indices of units of *group* that can be removed together, keeping the least numbers."""
    alive = np.ones(group.width, bool)
    for unit in range(group.width - 1):
        alive[unit] = False
        if any(alive[part].sum() < min(least, len(part)) for part, least in group.parts):
            alive[unit] = True
    return np.flatnonzero(~alive)
