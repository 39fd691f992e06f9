"""Account of the rows of the running step on this rank, before and after a death in it."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.partition.spans import Span, size
from matex.records.step_report import DeathCost
from matex.steps.own_rows import OwnRows
from matex.steps.services import StepServices, VacantPlaces

__all__ = ["RowAccount"]


class RowAccount:
    """Account of the rows of this rank in the running step, and repairs within it. One per engine.

    ``have`` are the spans of this rank's kept contribution; ``death_cost`` records what the running
    step lost and took over, ``inherited`` the samples that a joining rank computes in place of the
    dead. ``places`` are filled after a recovery, before the step is made again; None if no spare
    may join. ``is_closed`` is whether no spare may join in the running step, because it would not
    know the agreements of the others.

    Args:
        services: ranks of the run.
        rows: rows that this rank computes.
    """

    def __init__(self, services: StepServices, rows: OwnRows) -> None:
        self._communicator = services.communicator
        self._rows = rows
        self.places: VacantPlaces | None = None
        self.is_closed = False
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
        span, pending = self._rows.running.span, self._communicator.pending
        self.death_cost = DeathCost()
        self.is_closed = False
        self.have = self._rows.assigned(span)
        if self.inherited:
            self.death_cost.at_risk, self.inherited = self.inherited, {}
            self.death_cost.recomputed = size(self.have)
        if pending.lost:
            fresh = ft.Pending(operation=pending.operation, expected=pending.expected, lost=())
            of = self._rows.samples_of
            self.death_cost.at_risk = {rank: of(rank, fresh) for rank in pending.lost}
            own = of(self._communicator.world.rank, fresh)
            self.death_cost.recomputed = size(self.have) - own
        return self.have

    def divide_anew(self) -> None:
        """Let this rank compute the rows that are its own by the ranks of now. Local."""
        self.have = self._rows.assigned(self._rows.running.span)

    def take_over(self) -> None:
        """Divide the step anew after a death, and note what this rank then has in addition."""
        before = size(self.have)
        self.divide_anew()
        self.death_cost.recomputed += max(0, size(self.have) - before)

    def recover(self, *, ends_step: bool = True, undo: Callable[[], None] = lambda: None) -> bool:
        """Recover among the survivors, record the samples at risk, and let spares join; collective.

        Args:
            ends_step: whether the interrupted operation is the last of the step; True by default.
            undo: function that restores what the step has changed, before a spare gets a copy.

        Returns:
            True if the step is over for this rank: another rank had completed the operation.
        """
        pending = self._communicator.pending
        joinable = self.places is not None and not self.is_closed
        recovery = self._communicator.recover(joinable=joinable)
        over = recovery.finished and ends_step
        for member in recovery.lost:
            # A contribution that a rank sent before it died is in the sum that another rank has.
            undone = 0 if over else self._rows.samples_of(member.rank, pending)
            self.death_cost.at_risk[member.rank] = undone
        if not over:
            undo()
        if self.places is not None and joinable and not over:
            self.places.fill(recovery)
        return over
