"""Orders in which parts of the samples move around a ring of ranks, one place per epoch.

The samples lie on a circle, in an order that is shuffled once. An epoch divides the circle into
one part per place of the ring, shuffles every part, and makes each step of a slice of every part.
From epoch to epoch the boundaries move by one place: each place trains on the part of the previous
place's last epoch.

The number of places is the number of ranks when training begins, and stays the same. So the order,
like any other, is a function of numbers that no death changes; fewer ranks divide its steps as
they divide those of any order.
"""

from __future__ import annotations

import numpy as np

from matex.partition.spans import size, split

__all__ = ["pack_geometry", "ring_visits", "sharers", "unpack_geometry"]

_PLACES_BITS = 20


def ring_visits(samples: int, *, seed: int, epoch: int, places: int, width: int) -> np.ndarray:
    """All row numbers (int64), in the visiting order of *epoch*.

    Args:
        samples: number of samples.
        seed, epoch: numbers that determine the order.
        places: number of places of the ring.
        width: number of samples of the steps for which parts are laid out; others may be made.
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
    """Place among *ranks* of the rank that computes each sample of an epoch: int32.

    In visiting order, for steps of *batch_size* that are divided by
    :func:`matex.partition.spans.assigned`.
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
    """*places* and *width* in one positive number of 63 bits, for a checkpoint."""
    return width << _PLACES_BITS | places


def unpack_geometry(packed: int) -> tuple[int, int]:
    """Places and width from :func:`pack_geometry`."""
    return packed & ((1 << _PLACES_BITS) - 1), packed >> _PLACES_BITS
