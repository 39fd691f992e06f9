"""Criteria that use weights alone: one other unit takes over a unit's work, or none does.

For unit j with incoming vector w_j and outgoing row u_j, merged into i, the nearest that
stays: ``u_i += lam u_j``.

============  ==============================  ======================================
criterion     lam                             score, the smallest goes first
============  ==============================  ======================================
similarity    1                               |u_j|^2 |w_i - w_j|^2 (arXiv:1507.06149)
projection    max(0, <w_i, w_j> / |w_i|^2)    |u_j|^2 |w_j|^2 sin^2(w_i, w_j)
angle         |w_j| / |w_i|                   the angle between w_i and w_j
magnitude     0                               |w_j| |u_j|
random        0                               none
============  ==============================  ======================================

A lam other than 0 and 1 is right only for units whose activation scales with their
incoming vector; for the others ``projection`` and ``angle`` are ``similarity``.
"""

from __future__ import annotations

import numpy as np

from matex.apoptosis.group_statistics import GreedyRemoval, GroupStatistics, Limits, Removal

__all__ = ["BASELINES", "inheritance", "remove_by_baseline", "remove_by_pairs"]

BASELINES = ("magnitude", "random")


def remove_by_pairs(criterion: str, statistics: GroupStatistics, limits: Limits) -> Removal:
    """The removal by ``similarity``, ``projection`` or ``angle``; pure."""
    if not statistics.scales:
        criterion = "similarity"
    incoming, outgoing = statistics.incoming, _outgoing(statistics)
    distance, factor, angle = _pairwise(criterion, incoming)
    np.fill_diagonal(distance, np.inf)
    np.fill_diagonal(angle, np.inf)
    nearest = (angle if criterion == "angle" else distance).argmin(1)
    power = np.einsum("jm,jm->j", outgoing, outgoing)
    total = max(float(power @ np.einsum("jd,jd->j", incoming, incoming)), 1e-300)
    greedy = GreedyRemoval(statistics.units, limits)
    rows = np.arange(statistics.units)
    while True:
        lost = power * distance[rows, nearest]
        unit = greedy.pick(angle[rows, nearest] if criterion == "angle" else lost)
        if unit is None or not greedy.remove(unit, float(lost[unit]) / total):
            break
        heir = int(nearest[unit])
        lam = float(factor[unit, heir])
        outgoing[heir] += lam * outgoing[unit]
        power[heir] = outgoing[heir] @ outgoing[heir]
        distance[:, unit] = angle[:, unit] = np.inf
        for orphan in np.flatnonzero(greedy.alive & (nearest == unit)):
            nearest[orphan] = (angle if criterion == "angle" else distance)[orphan].argmin()
    return greedy.removal


def remove_by_baseline(
    criterion: str, statistics: GroupStatistics, limits: Limits, *, seed: int = 0
) -> Removal:
    """Removal by ``magnitude`` or ``random``, without transfer of work; pure.

    Random units that cost too much are passed over: others may cost less.
    """
    outgoing = _outgoing(statistics)
    incoming = statistics.incoming
    power = np.einsum("jm,jm->j", outgoing, outgoing) * np.einsum("jd,jd->j", incoming, incoming)
    scores = power
    if criterion == "random":
        scores = np.random.default_rng(seed).random(statistics.units)
    greedy = GreedyRemoval(statistics.units, limits)
    total = max(float(power.sum()), 1e-300)
    while (unit := greedy.pick(scores)) is not None:
        if greedy.remove(unit, float(power[unit]) / total):
            continue
        if criterion != "random":
            break
        greedy.keep(unit)
    return greedy.removal


def _outgoing(statistics: GroupStatistics) -> np.ndarray:
    return np.concatenate([reader.outgoing.astype(np.float64) for reader in statistics.readers], 1)


def _pairwise(criterion: str, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lost part of w_j, lam, and the angle: arrays with j in rows and i in columns."""
    product = w @ w.T
    square = np.diagonal(product).copy()
    safe = np.maximum(square, 1e-300)
    cosine = np.clip(product / np.sqrt(np.outer(safe, safe)), -1.0, 1.0)
    angle = np.arccos(cosine)
    if criterion == "similarity":
        distance = np.maximum(square[:, None] + square[None, :] - 2 * product, 0.0)
        return distance, np.ones_like(product), angle
    acute = cosine > 0
    distance = square[:, None] * np.where(acute, 1 - cosine**2, 1.0)
    if criterion == "projection":
        return distance, np.where(acute, product / safe[None, :], 0.0), angle
    factor = np.sqrt(safe[:, None] / safe[None, :])
    return distance, np.where(acute, factor, 0.0), angle


def inheritance(
    criterion: str, statistics: GroupStatistics, kept: np.ndarray, removed: np.ndarray
) -> np.ndarray:
    """The part of the work of each of *removed* that each of *kept* takes: shape (k, r). Pure."""
    transfer = np.zeros((len(kept), len(removed)))
    if criterion in BASELINES or not len(removed):
        return transfer
    criterion = criterion if statistics.scales else "similarity"
    distance, factor, angle = _pairwise(criterion, statistics.incoming)
    near = (angle if criterion == "angle" else distance)[np.ix_(removed, kept)].argmin(1)
    transfer[near, np.arange(len(removed))] = factor[removed, kept[near]]
    return transfer
