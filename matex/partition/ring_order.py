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

import numpy as np

from matex.partition.spans import size, split

__all__ = ["pack_geometry", "ring_visits", "sharers", "unpack_geometry"]

_PLACES_BITS = 20


def ring_visits(samples: int, *, seed: int, epoch: int, places: int, width: int) -> np.ndarray:
    """All row numbers (int64), as *epoch* visits them.

    Args:
        samples: number of samples.
        seed, epoch: numbers of which the order is a function.
        places: number of places of the ring.
        width: samples of the steps for which the parts are laid out; others may be made.
    """
    circle = np.random.Generator(np.random.PCG64(seed)).permutation(samples)
    start = -(epoch * samples // places)
    whole, rest = divmod(samples, width)
    order = np.empty(samples, np.int64)
    steps = order[: whole * width].reshape(whole, width)
    last = order[whole * width :]
    cuts = zip(split((0, width), places), split((0, rest), places), strict=True)
    for place, (cut, last_cut) in enumerate(cuts):
        each = size([cut])
        count = whole * each + size([last_cut])
        part = circle[np.arange(start, start + count) % samples]
        generator = np.random.Generator(np.random.PCG64([seed, epoch, place + 1]))
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
