"""Orders in which parts of the samples go around a ring of ranks, one place further each epoch.

The samples lie on a circle, in an order that is shuffled once. An epoch cuts the circle into
a part for each place of the ring, shuffles every part by itself, and makes each step of a
slice of every part. From epoch to epoch the cuts move by one place: what one place trains on,
the place before it trained on in the epoch before.

The number of places is that of the ranks when training begins, and stays. So the order, like
any other, is a function of numbers that no death changes; fewer ranks share its steps out
among themselves as they would share any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matex.partition.order import Order
from matex.partition.spans import size, split

__all__ = ["RingOrder", "pack_geometry", "sharers", "unpack_geometry"]

_PLACES_BITS = 20


@dataclass(frozen=True, kw_only=True)
class RingOrder(Order):
    """The order of one epoch.

    Args:
        places: number of places of the ring.
        width: samples of the steps for which the parts are laid out; others may be made.
    """

    places: int
    width: int

    def _visits(self) -> np.ndarray:
        samples = self.samples
        circle = np.random.Generator(np.random.PCG64(self.seed)).permutation(samples)
        start = -(self.epoch * samples // self.places)
        whole, rest = divmod(samples, self.width)
        order = np.empty(samples, np.int64)
        steps = order[: whole * self.width].reshape(whole, self.width)
        last = order[whole * self.width :]
        cuts = zip(split((0, self.width), self.places), split((0, rest), self.places), strict=True)
        for place, (cut, last_cut) in enumerate(cuts):
            each = size([cut])
            count = whole * each + size([last_cut])
            part = circle[np.arange(start, start + count) % samples]
            generator = np.random.Generator(np.random.PCG64([self.seed, self.epoch, place + 1]))
            part = generator.permutation(part)
            steps[:, slice(*cut)] = part[: whole * each].reshape(whole, each)
            last[slice(*last_cut)] = part[whole * each :]
            start += count
        return order


def sharers(samples: int, batch_size: int, ranks: int) -> np.ndarray:
    """Place among *ranks* of the one that computes each sample of an epoch: int32.

    In visiting order, in steps of *batch_size* that :func:`matex.partition.spans.assigned` shares
    out.
    """
    found = np.empty(samples, np.int32)
    whole, rest = divmod(samples, batch_size)
    steps = found[: whole * batch_size].reshape(whole, batch_size)
    for place, (lo, hi) in enumerate(split((0, batch_size), ranks)):
        steps[:, lo:hi] = place
    for place, (lo, hi) in enumerate(split((0, rest), ranks)):
        found[whole * batch_size :][lo:hi] = place
    return found


def pack_geometry(places: int, width: int) -> int:
    """Both in a number above 0, of 63 bits, as a checkpoint holds it."""
    return width << _PLACES_BITS | places


def unpack_geometry(packed: int) -> tuple[int, int]:
    """The places and the width of :func:`pack_geometry`."""
    return packed & ((1 << _PLACES_BITS) - 1), packed >> _PLACES_BITS
