"""Interface of a criterion: what it measures, which units it removes, and who takes over. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matex.apoptosis.group_statistics import GroupStatistics, Limits, Removal

__all__ = ["Criterion", "Derivatives", "for_readers", "nobody_takes_over"]


@dataclass(frozen=True, kw_only=True)
class Derivatives:
    """Derivatives of the loss that a criterion measures, and what follows from them.

    Args:
        orders: noun for messages, such as "derivative".
        parts: number of sums for each unit.
        of_batch: function of the losses (``Losses`` of
            :mod:`matex.apoptosis.criteria.derivatives`), the network, its groups and a batch; it
            returns the sums over the batch of each group, shape (parts, units), or None where the
            loss of the batch does not depend on a group by a function with a derivative. They add
            up over batches and over ranks.
        importance: function from the mean of these sums over the rows to the importance of each
            unit, shape (units,).
    """

    orders: str
    parts: int
    of_batch: Callable[..., list[np.ndarray | None]]
    importance: Callable[[np.ndarray], np.ndarray]


def nobody_takes_over(
    statistics: GroupStatistics, kept: np.ndarray, removed: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Transfers of nothing; see :class:`Criterion`."""
    return for_readers(np.zeros((len(kept), len(removed))), statistics)


def for_readers(transfer: np.ndarray, statistics: GroupStatistics) -> tuple[np.ndarray, ...]:
    """One *transfer*, shape (k, r), for each reader, of which biases take over nothing."""
    bias = np.zeros((1, transfer.shape[1]))
    return tuple(
        np.vstack([transfer, bias]) if reader.has_constant else transfer
        for reader in statistics.readers
    )


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """Choice of the removed units of a group, and of their substitutes.

    Without moments and derivatives, it is given the units' incoming vectors.

    Args:
        name: name on the command line.
        choose: function of a group's statistics, limits and a seed, which returns the removal. The
            same seed is given for every group.
        transfers: function of a group's statistics, the kept and the removed units, which returns
            the work that kept units take over: a matrix T for each reader, shape (k, r) or, with a
            constant, (k + 1, r). The outgoing rows of the k that stay become
            ``U[kept] + T[:k] @ U[removed]``, and ``T[k] @ U[removed]`` is for the bias. By default
            nobody takes over anything.
        reuses_transfers: whether the transfers of a removal stay the same while units of other
            groups are removed, so that they are computed once.
        moments: whether it asks for the second moments of what the readers read.
        derivatives: derivatives of the loss that it asks for; None if it asks for no loss.
    """

    name: str
    choose: Callable[[GroupStatistics, Limits, int], Removal]
    transfers: Callable[[GroupStatistics, np.ndarray, np.ndarray], tuple[np.ndarray, ...]] = (
        nobody_takes_over
    )
    reuses_transfers: bool = False
    moments: bool = False
    derivatives: Derivatives | None = None
