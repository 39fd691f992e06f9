"""Criteria to compare others with: units of small weights, or any; nobody takes over. Pure.

============  ===================================
criterion     score, the smallest goes first
============  ===================================
magnitude     ``|w_j| |u_j|``
random        a random number
============  ===================================

Vectors are those of :mod:`matex.apoptosis.criteria.pairs`.
"""

from __future__ import annotations

import numpy as np

from matex.apoptosis.criteria.criterion import Criterion
from matex.apoptosis.group_statistics import GreedyRemoval, GroupStatistics, Limits, Removal

__all__ = ["MAGNITUDE", "RANDOM"]


def _remove(
    statistics: GroupStatistics,
    limits: Limits,
    *,
    scores: np.ndarray | None = None,
    others_may_cost_less: bool = False,
) -> Removal:
    """The removal of the smallest of *scores*; pure.

    Args:
        scores: score of each unit; by default its cost.
        others_may_cost_less: whether a unit that costs too much is passed over, instead of ending
            the removal.
    """
    outgoing, incoming = statistics.outgoing, statistics.incoming
    power = np.einsum("jm,jm->j", outgoing, outgoing) * np.einsum("jd,jd->j", incoming, incoming)
    scores = power if scores is None else scores
    greedy = GreedyRemoval(statistics.units, limits)
    total = max(float(power.sum()), 1e-300)
    while (unit := greedy.pick(scores)) is not None:
        if greedy.remove(unit, float(power[unit]) / total):
            continue
        if not others_may_cost_less:
            break
        greedy.keep(unit)
    return greedy.removal


def _remove_any(statistics: GroupStatistics, limits: Limits, seed: int) -> Removal:
    scores = np.random.default_rng(seed).random(statistics.units)
    return _remove(statistics, limits, scores=scores, others_may_cost_less=True)


MAGNITUDE = Criterion(
    name="magnitude", choose=lambda statistics, limits, seed: _remove(statistics, limits)
)
RANDOM = Criterion(name="random", choose=_remove_any)
