"""Sums over the ranks of a run that stay correct when ranks die meanwhile.

There are two kinds. A vector that each member holds as a whole is summed by :func:`over_members`;
for work divided by rows, :func:`over_rows` lets the survivors compute the dead ranks' rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

import ft
from matex.partition.row_pieces import missing_rows
from matex.partition.spans import Span

__all__ = ["RowWork", "over_members", "over_rows"]

Spans = list[list[Span]]


class RowWork(Protocol):
    """Work on the rows of one or more batches, which the ranks share.

    Spans are listed by batch: ``have`` are the spans whose results this rank holds, updated by
    :func:`over_rows`. All methods are local, and called on all ranks alike.
    """

    have: Spans

    def assigned_rows(self) -> Spans:
        """Rows of this rank, by the members and the dead ranks of the next operation."""

    def compute_rows(self, missing: Spans) -> None:
        """Add the results of *missing* rows to the results of this rank."""

    def forget_rows(self) -> None:
        """Drop all results."""

    def packed_rows(self) -> np.ndarray:
        """Results of ``have`` as a new, contiguous vector, of the same length on all ranks."""


def over_rows(communicator: ft.Communicator, work: RowWork) -> np.ndarray:
    """Sum of all ranks' results, with each row counted once; collective.

    Recovers by itself: after a death each survivor computes its piece of the dead rank's rows. A
    sum without a member's vector counts as a failure.

    Returns:
        Sum of the vectors ``work.packed_rows()``, equal on all ranks.
    """
    while True:
        wanted = work.assigned_rows()
        missing = missing_rows(wanted, work.have)
        if missing.anew:
            work.forget_rows()
        if any(missing.spans):
            work.compute_rows(missing.spans)
        work.have = wanted
        send = work.packed_rows()
        total = np.empty_like(send)
        try:
            communicator.allreduce(send, total)
            return total
        except ft.PeerFailure:
            if communicator.recover().finished:
                return total


def over_members(
    communicator: ft.Communicator,
    vector: np.ndarray,
    *,
    prepare: Callable[[np.ndarray], None] = lambda vector: None,
) -> np.ndarray:
    """Sum of the members' vectors; collective.

    Recovers by itself. The vector of a rank that dies meanwhile is included or not, equally on all
    ranks.

    Args:
        vector: array of the same length on all ranks; its last element is 1, so that the last
            element of the sum is the number of vectors. Its dtype must be able to count the ranks.
        prepare: function of *vector*, called before each attempt; it may change the vector.

    Returns:
        Sum, bit-identical on all ranks.
    """
    total = np.empty_like(vector)
    while True:
        prepare(vector)
        try:
            communicator.allreduce(
                vector, total, valid=lambda: int(total[-1]) == communicator.world.size
            )
            return total
        except ft.PeerFailure:
            if communicator.recover().finished:
                return total
