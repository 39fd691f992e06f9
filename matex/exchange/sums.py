"""Sums over the ranks of a run that stay right when ranks die on the way.

There are two kinds. A vector that each member holds whole is summed by :func:`over_members`; of
work that is divided by rows the survivors make up what the dead owed, in :func:`over_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

import ft
from matex.partition.spans import Span, difference

__all__ = ["RowWork", "over_members", "over_rows"]

Spans = list[list[Span]]


class RowWork(Protocol):
    """Work on the rows of one or more batches that the ranks divide among themselves.

    Spans are listed by batch: ``have`` are those whose results this rank holds, which
    :func:`over_rows` keeps up to date. All methods are local, and called on all ranks alike.
    """

    have: Spans

    def assigned_rows(self) -> Spans:
        """Rows of this rank, by the members and the dead of the operation to come."""

    def compute_rows(self, missing: Spans) -> None:
        """Add the results of these rows to those that are there."""

    def forget_rows(self) -> None:
        """Forget all results."""

    def packed_rows(self) -> np.ndarray:
        """The results of ``have`` as a new, contiguous vector, of one length on all ranks."""


def over_rows(communicator: ft.Communicator, work: RowWork) -> np.ndarray:
    """The sum of what all ranks computed, in which each row counts once; collective.

    Recovers by itself: after a death each survivor computes its piece of the dead rank's rows. A
    sum that lacks a member's vector counts as one that failed.

    Returns:
        The sum of the vectors ``work.packed_rows()``, the same on all ranks.
    """
    while True:
        wanted = work.assigned_rows()
        missing = [difference(w, h) for w, h in zip(wanted, work.have, strict=True)]
        if None in missing:  # a second death divided the rows anew
            work.forget_rows()
            missing = list(wanted)
        if any(missing):
            work.compute_rows([spans or [] for spans in missing])
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
    """The sum of the members' vectors; collective.

    Recovers by itself. The vector of a rank that dies on the way counts or does not, alike on
    all ranks.

    Args:
        vector: array of one length on all ranks; its last element is 1, so that the last of the sum
            says how many vectors it is of. Its dtype can count the ranks.
        prepare: function of *vector*, called before each attempt, and may change it.

    Returns:
        The sum, the same on all ranks to the last bit.
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
