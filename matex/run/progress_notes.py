"""Notes of a run's progress, and of the speed of each rank."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.records.events import EventLog
from matex.records.memory import resident_bytes
from matex.records.progress import ProgressThrottle, newest_told, own_timings
from matex.records.step_report import StepReport
from matex.run.ledger import RunLedger
from matex.run.recovery_log import RecoveryLog

__all__ = ["ProgressNotes"]


class ProgressNotes:
    """Writes progress notes as events, at a rate with negligible cost. Local.

    Args:
        communicator: ranks of the run.
        events, ledger, recoveries: records and counts of the run.
        size_of: function that returns the number of training ranks of a world.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        events: EventLog,
        ledger: RunLedger,
        recoveries: RecoveryLog,
        *,
        size_of: Callable[[ft.World], int],
    ) -> None:
        self._communicator = communicator
        self._events = events
        self._ledger = ledger
        self._recoveries = recoveries
        self._size_of = size_of
        self._progress = ProgressThrottle()
        self._timings = own_timings(size_of(communicator.world))
        self._leads = communicator.world.is_leader

    def step_done(self, report: StepReport) -> None:
        """Write notes that are due, after a step was counted and before the next."""
        self._progress.step(report)
        self._timings.step(report)
        if self._progress.is_due():
            self._note_progress(self._ledger.step)
        if self._timings.is_due():
            self._note_timings(self._ledger.step)

    def end(self) -> None:
        """Write notes on the steps since the last ones; after all steps were counted."""
        if self._progress.has_steps:
            self._note_progress(self._ledger.step - 1)
        if self._timings.has_steps:
            self._note_timings(self._ledger.step - 1)

    def _note_progress(self, step: int) -> None:
        """Note the progress of training up to *step*, on the leader."""
        progress = self._progress.take()
        world = self._communicator.world
        led, self._leads = self._leads, world.is_leader
        if world.is_leader:
            if not led:  # its predecessor did not tell of the same steps as it would have
                told = newest_told(self._events.all())
                progress["steps"] = progress["steps"] if told is None else step - told
            self._events.write(
                "progress",
                step=step,
                samples=self._ledger.totals.samples_used,
                world_size=self._size_of(world),
                **progress,
            )
            self._recoveries.spares_lost(self._communicator.lost_spares())

    def _note_timings(self, step: int) -> None:
        """Note the duration of this rank's own steps up to *step*, and its memory."""
        own = self._timings.take()
        del own["loss"]  # of the whole batch, which the leader notes
        self._events.write("timing", step=step, memory=resident_bytes(), **own)
