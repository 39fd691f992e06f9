"""Criteria, by name: each chooses the removed units of a group and their substitutes. Pure."""

from __future__ import annotations

import numpy as np

from matex.apoptosis.elimination import remove_by_gram, replacement
from matex.apoptosis.group_statistics import GroupStatistics, Limits, Removal
from matex.apoptosis.importance import BY_LOSS, remove_by_importance
from matex.apoptosis.pairs import BASELINES, inheritance, remove_by_baseline, remove_by_pairs

__all__ = ["CRITERIA", "choose", "transfers"]

CRITERIA = ("gram", "projection", "similarity", "angle", *BY_LOSS, *BASELINES)


def choose(
    criterion: str, statistics: GroupStatistics, limits: Limits, *, seed: int = 0
) -> Removal:
    """Choose the units of a group to be removed.

    Args:
        criterion: one of :data:`CRITERIA`.
        seed: seed of the criterion ``random``.
    """
    if criterion == "gram":
        return remove_by_gram(statistics.readers, limits)
    if criterion in BY_LOSS:
        return remove_by_importance(statistics, limits)
    if criterion in BASELINES:
        return remove_by_baseline(criterion, statistics, limits, seed=seed)
    return remove_by_pairs(criterion, statistics, limits)


def transfers(
    criterion: str, statistics: GroupStatistics, kept: np.ndarray, removed: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Work of the removed units that kept units take over: a matrix T for each reader.

    Its shape is (k, r) or, with a constant, (k + 1, r): the outgoing rows of the k that stay
    become ``U[kept] + T[:k] @ U[removed]``, and ``T[k] @ U[removed]`` is for the bias.
    """
    if criterion == "gram":
        return tuple(replacement(reader.gram, kept, removed) for reader in statistics.readers)
    if criterion in BY_LOSS:
        transfer = np.zeros((len(kept), len(removed)))
    else:
        transfer = inheritance(criterion, statistics, kept, removed)
    bias = np.zeros((1, len(removed)))
    return tuple(
        np.vstack([transfer, bias]) if reader.has_constant else transfer
        for reader in statistics.readers
    )
