"""The criteria that look at weights alone: one unit's work goes to one other, or to none.

For unit j with incoming vector w_j and outgoing row u_j, merged into i:
``u_i += lam u_j``.

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

from matex.apoptosis.evidence import Evidence, Limits, Removal, Survivors

__all__ = ["remove_by_baseline", "remove_by_pairs"]

_NONE = -1


def remove_by_pairs(criterion: str, evidence: Evidence, limits: Limits) -> Removal:
    """By ``similarity``, ``projection`` or ``angle``; pure."""
    if not evidence.scales:
        criterion = "similarity"
    incoming, outgoing = evidence.incoming, _outgoing(evidence)
    distance, factor, angle = _pairwise(criterion, incoming)
    np.fill_diagonal(distance, np.inf)
    np.fill_diagonal(angle, np.inf)
    nearest = (angle if criterion == "angle" else distance).argmin(1)
    power = np.einsum("jm,jm->j", outgoing, outgoing)
    total = max(float(power @ np.einsum("jd,jd->j", incoming, incoming)), 1e-300)
    survivors = Survivors(evidence.units, limits)
    heirs: list[tuple[int, float]] = []
    rows = np.arange(evidence.units)
    while True:
        lost = power * distance[rows, nearest]
        unit = survivors.pick(angle[rows, nearest] if criterion == "angle" else lost)
        if unit is None or not survivors.remove(unit, float(lost[unit]) / total):
            break
        heir = int(nearest[unit])
        lam = float(factor[unit, heir])
        outgoing[heir] += lam * outgoing[unit]
        power[heir] = outgoing[heir] @ outgoing[heir]
        heirs.append((heir, lam))
        distance[:, unit] = angle[:, unit] = np.inf
        for orphan in np.flatnonzero(survivors.alive & (nearest == unit)):
            nearest[orphan] = (angle if criterion == "angle" else distance)[orphan].argmin()
    return _removal(evidence, survivors, heirs)


def remove_by_baseline(
    criterion: str, evidence: Evidence, limits: Limits, *, seed: int = 0
) -> Removal:
    """By ``magnitude`` or ``random``, whose dead leave their work undone; pure."""
    outgoing = _outgoing(evidence)
    incoming = evidence.incoming
    power = np.einsum("jm,jm->j", outgoing, outgoing) * np.einsum("jd,jd->j", incoming, incoming)
    scores = power
    if criterion == "random":
        scores = np.random.default_rng(seed).random(evidence.units)
    survivors = Survivors(evidence.units, limits)
    total = max(float(power.sum()), 1e-300)
    while (unit := survivors.pick(scores)) is not None:
        if not survivors.remove(unit, float(power[unit]) / total):
            break
    return _removal(evidence, survivors, [(_NONE, 0.0)] * len(survivors.removed))


def _outgoing(evidence: Evidence) -> np.ndarray:
    return np.concatenate([reader.outgoing for reader in evidence.readers], 1)


def _pairwise(criterion: str, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For j in rows, i in columns: what is lost of w_j, lam, and the angle."""
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


def _removal(evidence: Evidence, survivors: Survivors, heirs: list[tuple[int, float]]) -> Removal:
    """Inheritance from dead to dead goes on to the living."""
    work = np.eye(evidence.units)
    for unit, (heir, lam) in zip(survivors.removed, heirs, strict=True):
        if heir != _NONE:
            work[heir] += lam * work[unit]
        work[unit] = 0.0
    kept = np.flatnonzero(survivors.alive)
    removed = np.array(survivors.removed, np.int64)
    transfer = work[np.ix_(kept, removed)]
    transfers = tuple(
        np.vstack([transfer, np.zeros((1, len(removed)))]) if reader.has_constant else transfer
        for reader in evidence.readers
    )
    return Removal(kept, removed, survivors.cost, transfers)
