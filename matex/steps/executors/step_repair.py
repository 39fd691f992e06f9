"""Repair of the communicator within a step, and the spares that may join the step then."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.steps.executors.row_account import RowAccount
from matex.steps.services import VacantPlaces

__all__ = ["StepRepair"]


class StepRepair:
    """Recovers among the survivors of a step, and lets spares take the places of the dead.

    ``places`` are filled after a recovery, before the step is made again; None if no spare may
    join. ``is_closed`` is whether no spare may join in the running step, because it would not know
    the agreements of the others.

    Args:
        communicator: ranks of the run.
        account: account of the rows of this rank, in which deaths are recorded.
    """

    def __init__(self, communicator: ft.Communicator, account: RowAccount) -> None:
        self._communicator = communicator
        self._account = account
        self.places: VacantPlaces | None = None
        self.is_closed = False

    def begin(self) -> None:
        """Start a new step. Local."""
        self.is_closed = False

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
        # A contribution that a rank sent before it died is in the sum that another rank has.
        self._account.record_lost([member.rank for member in recovery.lost], pending, over=over)
        if not over:
            undo()
        if self.places is not None and joinable and not over:
            self.places.fill(recovery)
        return over
