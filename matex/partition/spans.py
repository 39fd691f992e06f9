"""Who computes which samples: pure functions, no communication, no state.

The order of samples is a function of (seed, epoch); a step is the interval
[lo, hi) of that order; a rank's part of it is a function of the interval, the
ranks that were expected to take part and those of them that were lost. So all
survivors know, without talking, who computes what, and every sample of a step
is computed exactly once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from matex.partition.balance import shares

__all__ = ["Order", "Span", "assigned", "difference", "marks", "parts_of", "size", "split"]

Span = tuple[int, int]

# Sums of fingerprints travel as float32, which counts exactly up to here.
_EXACT = 1 << 24

# Kernels like multiples of it; shares by speed are such, where batches are large enough.
_QUANTUM = 8


def split(span: Span, parts: int) -> list[Span]:
    """Divide [lo, hi) into *parts* adjacent spans whose lengths differ by at most one."""
    lo, hi = span
    cuts = [lo + (hi - lo) * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def size(spans: Sequence[Span]) -> int:
    """How many samples are in *spans*."""
    return sum(hi - lo for lo, hi in spans)


def parts_of(
    span: Span, ranks: Sequence[int], speeds: Mapping[int, float] = MappingProxyType({})
) -> dict[int, Span]:
    """The adjacent spans into which [lo, hi) is divided among *ranks*, in their order.

    Args:
        speeds: to which the lengths are proportional, by rank; a rank that is not in it has
            the mean of the others. All alike without it.
    """
    lo, hi = span
    known = [speeds[rank] for rank in ranks if rank in speeds]
    if not known or hi - lo < len(ranks):
        return dict(zip(ranks, split(span, len(ranks)), strict=True))
    typical = sum(known) / len(known)
    lengths = shares(hi - lo, [speeds.get(rank, typical) for rank in ranks], quantum=_QUANTUM)
    cuts = list(itertools.accumulate(lengths, initial=lo))
    return dict(zip(ranks, itertools.pairwise(cuts), strict=True))


def assigned(
    span: Span,
    expected: Sequence[int],
    lost: Sequence[int],
    rank: int,
    speeds: Mapping[int, float] = MappingProxyType({}),
) -> list[Span]:
    """What *rank* computes of [lo, hi): its own part, then its piece of each lost rank's part.

    Over all ranks in *expected* but not in *lost* the results are disjoint and
    cover [lo, hi). Empty pieces are left out, and adjacent ones joined.

    Args:
        span: the step's interval [lo, hi) in the epoch's order.
        expected: ranks among which the interval is shared out, in order.
        lost: ranks of *expected* that died since; their parts are divided among the rest.
        rank: whose spans are wanted; in *expected*, not in *lost*.
        speeds: see :func:`parts_of`.
    """
    parts = parts_of(span, expected, speeds)
    alive = [r for r in expected if r not in lost]
    spans = [parts[rank]]
    place = alive.index(rank)
    spans += [split(parts[dead], len(alive))[place] for dead in expected if dead in lost]
    return _joined(spans)


def difference(wanted: Sequence[Span], have: Sequence[Span]) -> list[Span] | None:
    """The part of *wanted* that *have* lacks, or None when *have* holds anything unwanted."""
    if _without(have, wanted):
        return None
    return _without(wanted, have)


def _without(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    left = list(spans)
    for lo, hi in taken:
        left = [
            piece
            for start, end in left
            for piece in ((start, min(end, lo)), (max(start, hi), end))
            if piece[0] < piece[1]
        ]
    return _joined(left)


def _joined(spans: Sequence[Span]) -> list[Span]:
    result: list[Span] = []
    for lo, hi in sorted(spans):
        if lo >= hi:
            continue
        if result and result[-1][1] == lo:
            result[-1] = (result[-1][0], hi)
        else:
            result.append((lo, hi))
    return result


def marks(numbers: np.ndarray, batch_size: int) -> np.ndarray:
    """A uint16 hash of each of *numbers*; those of one batch sum to less than 2^24.

    Not linear, or neighbours that slipped by one would cancel out.
    """
    bits = max(0, min(16, (_EXACT // batch_size).bit_length() - 1))
    return (_mixed(numbers) >> np.uint64(48)).astype(np.uint16) >> (16 - bits)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order in which one epoch visits the samples.

    Args:
        samples: how many there are.
        batch_size: samples of a step over all ranks (the global batch).
        shuffle: visit in the seeded order of this epoch rather than as stored.
        seed, epoch: what the order is a function of.
    """

    samples: int
    batch_size: int
    shuffle: bool
    seed: int
    epoch: int

    def __post_init__(self) -> None:
        order = self._visits()
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_marks", marks(order, self.batch_size))

    def _visits(self) -> np.ndarray:
        """All row numbers (int64), as the epoch visits them."""
        if not self.shuffle:
            return np.arange(self.samples)
        generator = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        return generator.permutation(self.samples)

    @property
    def steps(self) -> int:
        return -(-self.samples // self.batch_size)

    def step(self, cursor: int, batch_size: int | None = None) -> Span:
        """The interval that the step at *cursor* (samples done in this epoch) covers.

        *batch_size* is given where this step has fewer samples than the epoch's others.
        """
        return cursor, min(cursor + (batch_size or self.batch_size), self.samples)

    def indices(self, spans: Sequence[Span]) -> np.ndarray:
        """Row numbers (int64) of the samples in *spans*, in visiting order."""
        return self._of(self._order, spans)  # type: ignore[attr-defined]

    def fingerprint(self, spans: Sequence[Span]) -> int:
        """A sum over samples that tells sets of equal size apart; below 2^24 for a whole step.

        Summed over the ranks with the gradients, it shows that a step was made of
        exactly the samples it should be made of, none twice.
        """
        return int(self._of(self._marks, spans).sum())  # type: ignore[attr-defined]

    @staticmethod
    def _of(array: np.ndarray, spans: Sequence[Span]) -> np.ndarray:
        if len(spans) == 1:
            return array[slice(*spans[0])]
        return np.concatenate([array[:0], *(array[lo:hi] for lo, hi in spans)])
