"""Mean of vectors over some of the members, by messages around a ring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ft
from matex.exchange.traffic import Traffic

__all__ = ["ring_mean", "ring_traffic"]


def ring_mean(
    communicator: ft.Communicator, ranks: Sequence[int], vector: np.ndarray, *, number: int
) -> np.ndarray | None:
    """Mean of *vector* over *ranks*; collective over *ranks* alone.

    Bit-identical on the ranks that get it. None if one of them, or any other member, dies
    meanwhile; some ranks may then have a result and others None. Never raises for a death: the
    next numbered operation finds it.

    Args:
        ranks: original ranks of living members, this one included, in the same order on each.
        vector: array of the same shape (n,) and dtype on all ranks.
        number: step of the run; see :class:`ft.Swap`.
    """
    count = len(ranks)
    if count == 1:
        return vector
    place = list(ranks).index(communicator.world.rank)
    to, source = ranks[(place + 1) % count], ranks[place - 1]
    length = -(-vector.size // count)
    pieces = np.zeros((count, length), vector.dtype)
    pieces.reshape(-1)[: vector.size] = vector
    rounds = count - 1
    for i in range(2 * rounds):
        sent, received = (place - i) % count, (place - i - 1) % count
        tag = 2 * rounds * number + i
        got = ft.Swap(communicator, pieces[sent], to=to, source=source, number=tag).wait()
        if got is None:
            return None
        # First each piece is summed on its way around the ring, then the sums go around.
        pieces[received] = pieces[received] + got if i < rounds else got
    return np.asarray(pieces.reshape(-1)[: vector.size] / vector.dtype.type(count))


def ring_traffic(count: int, vector: np.ndarray) -> Traffic:
    """Traffic of one of *count* ranks for :func:`ring_mean` of *vector*."""
    messages = 2 * (count - 1)
    return Traffic(messages, messages * vector.itemsize * -(-vector.size // count))
