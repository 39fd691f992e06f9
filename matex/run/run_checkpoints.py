"""Checkpoints of a run: the saver of new ones, and the one from which it continues."""

from __future__ import annotations

import checkpoints
from matex.checkpointing.saver import Saver
from matex.config.virtual import VIRTUAL
from matex.run.joining import Joining
from matex.run.ledger import RunLedger
from matex.run.ranks import RunRanks

__all__ = ["RunCheckpoints"]


class RunCheckpoints:
    """Saver of the run's checkpoints, and what an earlier start has already done. Local.

    Args:
        saver: saver of new checkpoints.
        ledger, ranks: counts and ranks of the run, which continue those of a checkpoint.
        joining: state of this process on its way into a running run; None on ranks of the start.
    """

    def __init__(
        self, saver: Saver, ledger: RunLedger, ranks: RunRanks, joining: Joining | None
    ) -> None:
        self.saver = saver
        self._ledger = ledger
        self._ranks = ranks
        self._joining = joining
        self._saved: checkpoints.Snapshot | None = None
        self.by_script = False
        """Whether the script saves a custom loop, and leaves between its steps."""

    @property
    def saved(self) -> checkpoints.Snapshot | None:
        """Checkpoint from which the run continues; None if it starts anew."""
        return self._saved

    def continue_from(self, saved: checkpoints.Snapshot | None) -> None:
        """Continue the run from *saved*; before any training, equally on all ranks."""
        self._saved = saved
        if saved is not None:
            self._ledger.go_to_step(saved.step)
            self._ranks.keep_virtual_workers(saved.cursor.get(VIRTUAL, 0))

    def passes_over(self, fit: int) -> bool:
        """Whether fit number *fit*, from 0, was complete before this start or this rank began."""
        if self._joining is not None:
            return self._joining.passes_over(fit)
        return self._saved is not None and self._saved.cursor["fit"] > fit
