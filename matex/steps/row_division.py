"""Division of batches among the ranks, by what all of them know."""

from __future__ import annotations

from collections.abc import Mapping

import ft
from matex.partition.spans import Span, assigned, samples_of, split

__all__ = ["RowDivision"]


class RowDivision:
    """Division of batches among the ranks; equal on all of them. Local.

    ``speeds`` of ranks determine the fraction of a batch that each computes; empty means equal
    fractions. ``workers`` is the number of virtual workers, whose rows are not divided; 0 without
    virtual workers.

    Args:
        communicator: ranks that live, and those lost since the last step.
        workers: number of virtual workers.
    """

    def __init__(self, communicator: ft.Communicator, *, workers: int) -> None:
        self._communicator = communicator
        self.speeds: Mapping[int, float] = {}
        self.workers = workers

    def assigned(self, span: Span, rank: int | None = None) -> list[Span]:
        """Rows of *span* that *rank* computes, given the ranks lost since the last step.

        A batch without rows, which Keras accepts, is assigned to the first living rank.

        Args:
            span: interval of the epoch.
            rank: a living rank; this rank by default.
        """
        pending = self._communicator.pending
        rank = self._communicator.world.rank if rank is None else rank
        if span[0] == span[1]:
            first = next(r for r in pending.expected if r not in pending.lost)
            return [span] if rank == first else []
        return assigned(
            span, pending.expected, pending.lost, rank, self.speeds, workers=self.workers
        )

    def samples_of(self, span: Span, rank: int, pending: ft.Pending) -> int:
        """Number of samples of *span* assigned to *rank* while *pending*, even if it has died."""
        return samples_of(rank, span, pending.expected, pending.lost, self.speeds, self.workers)

    def parts_of_workers(self, span: Span) -> list[Span]:
        """Rows of each virtual worker in *span*, without workers that have none.

        A batch without rows is one part.
        """
        if span[0] == span[1]:
            return [span]
        return [part for part in split(span, self.workers) if part[0] < part[1]]
