"""The notes of a run's progress: how far it has come, and how fast each rank is."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.records.events import EventLog
from matex.records.memory import resident_bytes
from matex.records.progress import ProgressThrottle, own_timings
from matex.records.step_report import StepReport
from matex.run.ledger import RunLedger
from matex.run.recovery_log import RecoveryLog

__all__ = ["ProgressNotes"]


class ProgressNotes:
    """Writes them as events, as seldom as makes them cost nothing. Local.

    Args:
        communicator: ranks of the run.
        events, ledger, recoveries: records and counts of the run.
        size_of: function that gives the number of ranks of a world that train.
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

    def step_done(self, report: StepReport) -> None:
        """Note what is due after a step that was counted, and whose number is still the newest."""
        self._progress.step(report)
        self._timings.step(report)
        if self._progress.is_due():
            self._note_progress()
        if self._timings.is_due():
            self._note_timings()

    def _note_progress(self) -> None:
        """Note how far training has come; the leader does."""
        progress = self._progress.take()
        world = self._communicator.world
        if world.is_leader:
            self._events.write(
                "progress",
                step=self._ledger.step,
                samples=self._ledger.totals.samples_used,
                world_size=self._size_of(world),
                **progress,
            )
            self._recoveries.spares_lost(self._communicator.lost_in_reserve())

    def _note_timings(self) -> None:
        """Note how long this rank's own steps take, and how much memory it occupies."""
        own = self._timings.take()
        del own["loss"]  # of the whole batch, which the leader notes
        self._events.write("timing", step=self._ledger.step, memory=resident_bytes(), **own)
