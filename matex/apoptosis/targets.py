"""Size of a model, and the goal for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from matex.apoptosis.graph.network import Network

__all__ = ["MEASURES", "Goal", "saving", "size_of"]

MEASURES = ("parameters", "flops")


def size_of(net: Network, measure: str, removed: Collection[int] = ()) -> float:
    """Parameters in the variables that units index, or FLOPs of a sample, without *removed*."""
    gone = np.array(sorted(removed), np.int64)
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


def saving(net: Network, removed: Collection[int]) -> float:
    """Sum of the fractions of parameters and of FLOPs that removing the units *removed* saves."""
    sizes = ((size_of(net, measure), size_of(net, measure, removed)) for measure in MEASURES)
    return sum((before - after) / max(before, 1.0) for before, after in sizes)


class Goal(NamedTuple):
    """Goal: the network's *measure*, one of :data:`MEASURES`, reduced to *size*."""

    measure: str
    size: float

    def is_met(self, net: Network, removed: Collection[int] = ()) -> bool:
        """Whether *net* without *removed* units meets the target."""
        return size_of(net, self.measure, removed) <= self.size

    def part(
        self, net: Network, removed: Callable[[float], Collection[int]], limit: float
    ) -> float:
        """Smallest fraction of a threshold at which removal reduces *net* to the goal.

        It is *limit* if none does, and found by twelve bisections, so too large by limit / 4096 at
        most.

        Args:
            removed: function from a fraction to the units removed at it; at a larger one these are
                removed, too.
            limit: largest fraction.
        """
        low, high = 0.0, limit
        if not self.is_met(net, removed(limit)):
            return limit
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if self.is_met(net, removed(middle)) else (middle, high)
        return high
