"""Partners of a gossip, and the mean of their models (GossipGraD, arXiv:1803.05880).

Partners are a function of the members, the step and a seed, so every member knows all pairs
without communication. With dissemination each member sends to the member 2^k places ahead and
receives from the one 2^k places behind, where k counts the rounds of a cycle: after one cycle every
model has reached every member. For 2^n members the result is the exact mean. After each cycle the
members change places by the next of *size* permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Partners", "mix", "partners", "rounds"]


class Partners(NamedTuple):
    """Original ranks of the peers of one step: receiver and source."""

    to: int
    source: int


def rounds(size: int) -> int:
    """Steps of one cycle: log2 of *size*, rounded up; 0 for one member."""
    return (size - 1).bit_length()


def partners(ranks: Sequence[int], rank: int, step: int, *, seed: int) -> Partners | None:
    """Partners with which *rank* exchanges models in *step*; None for a single member.

    The pairs of a step are a permutation: each member sends to one member and receives from one, in
    the order of a dissemination.

    Args:
        ranks: living members, in the same order on all ranks.
        rank: one of them.
        step: number of the step.
        seed: seed of the places in all cycles but the first, equal on all ranks.
    """
    size = len(ranks)
    if size < 2:
        return None
    cycle, k = divmod(step, rounds(size))
    places = _places(size, cycle % size, seed)
    place = int(np.flatnonzero(places == list(ranks).index(rank))[0])
    to, source = (place + (1 << k)) % size, (place - (1 << k)) % size
    return Partners(ranks[places[to]], ranks[places[source]])


def _places(size: int, number: int, seed: int) -> np.ndarray:
    """Member at each place; permutation 0 is the order of the members."""
    if number == 0:
        return np.arange(size)
    return np.random.Generator(np.random.PCG64([seed, size, number])).permutation(size)


def mix(
    now: np.ndarray, sent: np.ndarray, got: np.ndarray, magnitudes: np.ndarray | None = None
) -> np.ndarray:
    """Merge of this replica, *sent* before its step and now *now*, with its partner's *got*.

    ``w = (sent + got) / 2 + (now - sent)``: the models are averaged as they were before the step,
    and the step's own change is kept whole. Averaging after the step would halve it. The mean over
    the members moves by the mean change.

    Args:
        magnitudes: mask of the elements that are never negative. An optimizer divides by their
            root, so at least a quarter of *now* is kept of each: an element that shrinks by more
            than half in a step, or was rounded in a message, would otherwise fall below zero.
    """
    mixed = np.asarray(now + (got - sent) / 2)
    if magnitudes is not None:
        np.maximum(mixed, now / 4, out=mixed, where=magnitudes)
    return mixed
