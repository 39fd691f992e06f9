"""Criteria that use weights alone: one other unit takes over a unit's work.

For unit j with incoming vector w_j and outgoing row u_j, merged into i, the nearest that
stays: ``u_i += lam u_j``.

============  ==============================  ======================================
criterion     lam                             score, the smallest goes first
============  ==============================  ======================================
similarity    1                               |u_j|^2 |w_i - w_j|^2 (arXiv:1507.06149)
projection    max(0, <w_i, w_j> / |w_i|^2)    |u_j|^2 |w_j|^2 sin^2(w_i, w_j)
angle         |w_j| / |w_i|                   the angle between w_i and w_j
============  ==============================  ======================================

A lam other than 0 and 1 is right only for units whose activation scales with their
incoming vector; for the others ``projection`` and ``angle`` are ``similarity``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from matex.apoptosis.criteria.criterion import Criterion, for_readers
from matex.apoptosis.group_statistics import GreedyRemoval, GroupStatistics, Limits, Removal

__all__ = ["ANGLE", "PROJECTION", "SIMILARITY"]


class _Geometry:
    """Products and angles of all pairs of incoming vectors: arrays with j in rows, i in columns."""

    def __init__(self, w: np.ndarray) -> None:
        self.product = w @ w.T
        self.square = np.diagonal(self.product).copy()
        self.safe = np.maximum(self.square, 1e-300)
        outer = np.sqrt(np.outer(self.safe, self.safe))
        self.cosine = np.clip(self.product / outer, -1.0, 1.0)
        self.angle = np.arccos(self.cosine)

    @property
    def acute(self) -> np.ndarray:
        """Whether w_i can take over a part of w_j."""
        acute: np.ndarray = self.cosine > 0
        return acute

    @property
    def sine_part(self) -> np.ndarray:
        """The square of what w_j has beside w_i."""
        part: np.ndarray = self.square[:, None] * np.where(self.acute, 1 - self.cosine**2, 1.0)
        return part


class _Merging(NamedTuple):
    """Rule by which a unit is merged into another one."""

    lost: Callable[[_Geometry], np.ndarray]
    """The lost part of w_j."""
    factor: Callable[[_Geometry], np.ndarray]
    """lam."""
    nearest_by_angle: bool = False
    """Whether the heir, and the unit that goes first, are those of the smallest angle."""


_SIMILAR = _Merging(
    lost=lambda g: np.maximum(g.square[:, None] + g.square[None, :] - 2 * g.product, 0.0),
    factor=lambda g: np.ones_like(g.product),
)
_PROJECTED = _Merging(
    lost=lambda g: g.sine_part,
    factor=lambda g: np.where(g.acute, g.product / g.safe[None, :], 0.0),
)
_TURNED = _Merging(
    lost=lambda g: g.sine_part,
    factor=lambda g: np.where(g.acute, np.sqrt(g.safe[:, None] / g.safe[None, :]), 0.0),
    nearest_by_angle=True,
)


def _remove(merging: _Merging, statistics: GroupStatistics, limits: Limits) -> Removal:
    """The removal by *merging*; pure."""
    if not statistics.scales:
        merging = _SIMILAR
    incoming, outgoing = statistics.incoming, statistics.outgoing
    pairs = _Geometry(incoming)
    distance, factor, angle = merging.lost(pairs), merging.factor(pairs), pairs.angle
    np.fill_diagonal(distance, np.inf)
    np.fill_diagonal(angle, np.inf)
    nearness = angle if merging.nearest_by_angle else distance
    nearest = nearness.argmin(1)
    power = np.einsum("jm,jm->j", outgoing, outgoing)
    total = max(float(power @ np.einsum("jd,jd->j", incoming, incoming)), 1e-300)
    greedy = GreedyRemoval(statistics.units, limits)
    rows = np.arange(statistics.units)
    while True:
        lost = power * distance[rows, nearest]
        unit = greedy.pick(angle[rows, nearest] if merging.nearest_by_angle else lost)
        if unit is None or not greedy.remove(unit, float(lost[unit]) / total):
            break
        heir = int(nearest[unit])
        lam = float(factor[unit, heir])
        outgoing[heir] += lam * outgoing[unit]
        power[heir] = outgoing[heir] @ outgoing[heir]
        distance[:, unit] = angle[:, unit] = np.inf
        for orphan in np.flatnonzero(greedy.alive & (nearest == unit)):
            nearest[orphan] = nearness[orphan].argmin()
    return greedy.removal


def _inheritance(
    merging: _Merging, statistics: GroupStatistics, kept: np.ndarray, removed: np.ndarray
) -> np.ndarray:
    """The part of the work of each of *removed* that each of *kept* takes: shape (k, r). Pure."""
    transfer = np.zeros((len(kept), len(removed)))
    if not len(removed):
        return transfer
    merging = merging if statistics.scales else _SIMILAR
    pairs = _Geometry(statistics.incoming)
    nearness = pairs.angle if merging.nearest_by_angle else merging.lost(pairs)
    near = nearness[np.ix_(removed, kept)].argmin(1)
    transfer[near, np.arange(len(removed))] = merging.factor(pairs)[removed, kept[near]]
    return transfer


def _criterion(name: str, merging: _Merging) -> Criterion:
    return Criterion(
        name=name,
        choose=lambda statistics, limits, seed: _remove(merging, statistics, limits),
        transfers=lambda statistics, kept, removed: for_readers(
            _inheritance(merging, statistics, kept, removed), statistics
        ),
    )


SIMILARITY = _criterion("similarity", _SIMILAR)
PROJECTION = _criterion("projection", _PROJECTED)
ANGLE = _criterion("angle", _TURNED)
