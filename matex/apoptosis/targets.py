"""How large a model is, and what share of units to remove for it to be smaller. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from matex.apoptosis.network import Network
from matex.apoptosis.trace import Group

__all__ = ["MEASURES", "share_for", "size_of"]

MEASURES = ("parameters", "flops")


def size_of(net: Network, measure: str, dead: Collection[int] = ()) -> float:
    """Parameters in the variables that units index, or FLOPs of a sample, without the *dead*."""
    gone = np.array(sorted(dead), np.int64)
    shapes: dict[int, list[int]] = {}
    for binding in net.bindings.values():
        shape = shapes.setdefault(id(binding.variable), [int(n) for n in binding.variable.shape])
        roots = net.units.roots(binding.units)
        shape[binding.axis] = int(np.count_nonzero(~np.isin(roots, gone)))
    if measure == "parameters":
        return float(sum(np.prod(shape) for shape in shapes.values()))
    return float(
        sum(2.0 * np.prod(shapes.get(id(v), [int(n) for n in v.shape])) * k for v, k in net.work)
    )


def share_for(net: Network, groups: Sequence[Group], measure: str, goal: float) -> float:
    """The share of each group's units that may go so that the size comes down to *goal*."""

    def size(share: float) -> float:
        dead = [g.members[: _most(g, share)] for g in groups]
        return size_of(net, measure, np.concatenate(dead).tolist() if dead else ())

    low, high = 0.0, 1.0
    if not groups or size(high) > goal:
        return high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if size(middle) <= goal else (middle, high)
    return high


def _most(group: Group, share: float) -> int:
    least = max((least for _, least in group.parts), default=1)
    return min(round(share * group.width), max(0, group.width - least))
