"""Criterion of the Gram matrix: a unit costs what all that stay together cannot replace. Pure."""

from __future__ import annotations

import numpy as np

from matex.apoptosis.criteria.criterion import Criterion
from matex.apoptosis.criteria.elimination import remove_by_gram, replacement
from matex.apoptosis.group_statistics import GroupStatistics

__all__ = ["GRAM"]


def _replacements(
    statistics: GroupStatistics, kept: np.ndarray, removed: np.ndarray
) -> tuple[np.ndarray, ...]:
    return tuple(replacement(reader.gram, kept, removed) for reader in statistics.readers)


GRAM = Criterion(
    name="gram",
    choose=lambda statistics, limits, seed: remove_by_gram(statistics.readers, limits),
    transfers=_replacements,
    reuses_transfers=True,
    moments=True,
)
