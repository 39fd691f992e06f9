"""Division of samples among ranks: pure functions without communication or state.

The order of samples is a function of (seed, epoch), see :mod:`matex.partition.order`; a step
is the interval [lo, hi) of that order; a rank's part of it is a function of the interval, of the
ranks that were expected in the step and of those that were lost. So all survivors know, without
communication, which rank computes which samples, and every sample of a step is computed exactly
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from matex.partition.balance import shares

__all__ = ["Span", "assigned", "difference", "parts_of", "samples_of", "size", "split"]

Span = tuple[int, int]

# Kernels are faster for multiples of it, so shares by speed are multiples in large batches.
_QUANTUM = 8


def split(span: Span, parts: int) -> list[Span]:
    """Divide [lo, hi) into *parts* adjacent spans whose lengths differ by at most one."""
    lo, hi = span
    cuts = [lo + (hi - lo) * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def size(spans: Sequence[Span]) -> int:
    """Number of samples in *spans*."""
    return sum(hi - lo for lo, hi in spans)


def parts_of(
    span: Span, ranks: Sequence[int], speeds: Mapping[int, float] = MappingProxyType({})
) -> dict[int, Span]:
    """Adjacent spans that divide [lo, hi) among *ranks*, in their order.

    Args:
        speeds: weights of the lengths, by rank; a missing rank gets the mean of the others. Equal
            lengths by default.
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
    workers: int = 0,
) -> list[Span]:
    """Spans of [lo, hi) for *rank*: its own part, then its piece of each lost rank's part.

    Over all ranks in *expected* but not in *lost* the results are disjoint and cover [lo, hi).
    Empty pieces are left out, and adjacent ones joined.

    Args:
        span: the step's interval [lo, hi) in the epoch's order.
        expected: ranks among which the interval is divided, in order.
        lost: ranks of *expected* that have died; their parts are divided among the others.
        rank: rank whose spans are returned; in *expected*, not in *lost*.
        speeds: see :func:`parts_of`.
        workers: number of virtual workers, each of whose rows one rank computes; 0, the default, if
            rows may be divided anywhere.
    """
    if workers:
        cuts = [lo for lo, _ in split(span, workers)] + [span[1]]
        whole = assigned((0, workers), expected, lost, rank, speeds)
        return _joined([(cuts[lo], cuts[hi]) for lo, hi in whole])
    parts = parts_of(span, expected, speeds)
    alive = [r for r in expected if r not in lost]
    spans = [parts[rank]]
    place = alive.index(rank)
    spans += [split(parts[dead], len(alive))[place] for dead in expected if dead in lost]
    return _joined(spans)


def samples_of(
    rank: int,
    span: Span,
    expected: Sequence[int],
    lost: Sequence[int],
    speeds: Mapping[int, float] = MappingProxyType({}),
    workers: int = 0,
) -> int:
    """Number of samples of *span* that *rank* has to compute, even if it has died.

    A rank that is not in *expected* has none. For the other arguments see :func:`assigned`.
    """
    if rank not in expected:
        return 0
    others = tuple(other for other in lost if other != rank)
    return size(assigned(span, expected, others, rank, speeds, workers))


def difference(wanted: Sequence[Span], have: Sequence[Span]) -> list[Span] | None:
    """Part of *wanted* that *have* lacks, or None if *have* holds unwanted samples."""
    if _without(have, wanted):
        return None
    return _without(wanted, have)


def _without(spans: Sequence[Span], removed: Sequence[Span]) -> list[Span]:
    left = list(spans)
    for lo, hi in removed:
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
