"""Which units of a group die: one choice by the name of a criterion. Pure."""

from __future__ import annotations

from matex.apoptosis.elimination import remove_by_gram
from matex.apoptosis.evidence import Evidence, Limits, Removal
from matex.apoptosis.pairs import remove_by_baseline, remove_by_pairs

__all__ = ["CRITERIA", "choose"]

CRITERIA = ("gram", "projection", "similarity", "angle", "magnitude", "random")


def choose(criterion: str, evidence: Evidence, limits: Limits, *, seed: int = 0) -> Removal:
    """Who dies of a group of units, and who takes over what.

    Args:
        criterion: of :data:`CRITERIA`.
        seed: of ``random``.
    """
    if criterion == "gram":
        return remove_by_gram(evidence.readers, limits)
    if criterion in ("magnitude", "random"):
        return remove_by_baseline(criterion, evidence, limits, seed=seed)
    return remove_by_pairs(criterion, evidence, limits)
