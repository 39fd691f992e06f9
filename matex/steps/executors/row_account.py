"""Account of the rows of the running step that this rank has computed."""

from __future__ import annotations

from collections.abc import Iterable

import ft
from matex.partition.spans import Span, size
from matex.records.step_report import DeathCost
from matex.steps.own_rows import OwnRows
from matex.steps.row_division import RowDivision

__all__ = ["RowAccount"]


class RowAccount:
    """Account of the rows of this rank in the running step, and of what deaths cost in it.

    ``have`` are the spans of this rank's kept contribution; ``death_cost`` records what the running
    step lost and took over, ``inherited`` the samples that a joining rank computes in place of the
    dead.

    Args:
        communicator: ranks of the run.
        rows: rows of the running step.
        division: division of batches among the ranks.
    """

    def __init__(self, communicator: ft.Communicator, rows: OwnRows, division: RowDivision) -> None:
        self._communicator = communicator
        self._rows = rows
        self._division = division
        self.inherited: dict[int, int] = {}
        self.have: list[Span] = []
        self.death_cost = DeathCost()

    @property
    def fingerprint(self) -> int:
        """Fingerprint of this rank's samples in the running step."""
        return self._rows.running.fingerprint(self.have) if self.have else 0

    def begin(self) -> list[Span]:
        """Start a new step; return the rows that this rank computes. Local.

        A rank lost in the last step, after others had finished it, still has rows in this step.
        """
        pending = self._communicator.pending
        self.death_cost = DeathCost()
        self.have = self.assigned()
        if self.inherited:
            self.death_cost.at_risk, self.inherited = self.inherited, {}
            self.death_cost.recomputed = size(self.have)
        if pending.lost:
            fresh = ft.Pending(operation=pending.operation, expected=pending.expected, lost=())
            of = self._samples_of
            self.death_cost.at_risk = {rank: of(rank, fresh) for rank in pending.lost}
            own = of(self._communicator.world.rank, fresh)
            self.death_cost.recomputed = size(self.have) - own
        return self.have

    def assigned(self) -> list[Span]:
        """Rows of the running step that this rank is to compute, by the ranks of now. Local."""
        return self._division.assigned(self._rows.running.span)

    def _samples_of(self, rank: int, pending: ft.Pending) -> int:
        return self._division.samples_of(self._rows.running.span, rank, pending)

    def divide_anew(self) -> None:
        """Let this rank compute the rows that are its own by the ranks of now. Local."""
        self.have = self.assigned()

    def take_over(self) -> None:
        """Divide the step anew after a death, and note what this rank then has in addition."""
        before = size(self.have)
        self.divide_anew()
        self.death_cost.recomputed += max(0, size(self.have) - before)

    def record_lost(self, ranks: Iterable[int], pending: ft.Pending, *, over: bool) -> None:
        """Record what *ranks* left undone when they died. Local.

        Args:
            ranks: ranks that died.
            pending: ranks of the interrupted operation, as before its recovery.
            over: whether the step is over, with their contributions.
        """
        for rank in ranks:
            self.death_cost.at_risk[rank] = 0 if over else self._samples_of(rank, pending)
