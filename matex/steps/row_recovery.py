"""The rows of the running step that this rank computes, before and after a death in it."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.partition.spans import Span, size
from matex.records.step_report import Replay
from matex.steps.own_rows import OwnRows
from matex.steps.services import OpenSlots, StepServices

__all__ = ["RowRecovery"]


class RowRecovery:
    """Repairs the communicator within a step, and keeps account of the rows. One to an engine.

    ``have`` are the spans that this rank's kept contribution is made of; ``replay`` is
    what the running step lost and took over, ``inherited`` what a rank that joins it does instead
    of the dead. ``slots`` are filled after a recovery, before the step is made again; None where
    no spare may join. ``is_closed`` is whether none may in the running step, because it would not
    know what the others have agreed on.

    Args:
        services: ranks of the run.
        rows: rows that this rank computes.
    """

    def __init__(self, services: StepServices, rows: OwnRows) -> None:
        self._communicator = services.communicator
        self._rows = rows
        self.slots: OpenSlots | None = None
        self.is_closed = False
        self.inherited: dict[int, int] = {}
        self.have: list[Span] = []
        self.replay = Replay()

    def begin(self) -> list[Span]:
        """A new step: what this rank is to compute of it. Local.

        Who was lost in the last step, after others had finished it, has rows in this one.
        """
        span, pending = self._rows.running.span, self._communicator.pending
        self.replay = Replay()
        self.is_closed = False
        self.have = self._rows.assigned(span)
        if self.inherited:
            self.replay.at_risk, self.inherited = self.inherited, {}
            self.replay.recomputed = size(self.have)
        if pending.lost:
            fresh = ft.Pending(operation=pending.operation, expected=pending.expected, lost=())
            of = self._rows.samples_of
            self.replay.at_risk = {rank: of(rank, fresh) for rank in pending.lost}
            own = of(self._communicator.world.rank, fresh)
            self.replay.recomputed = size(self.have) - own
        return self.have

    def recover(self, *, ends_step: bool = True, undo: Callable[[], None] = lambda: None) -> bool:
        """Go on with the survivors, note what was at risk, and let spares join; collective.

        Args:
            ends_step: whether the interrupted operation is the last of the step; so by default.
            undo: function that puts back what the step has changed, before a spare gets a copy.

        Returns:
            Whether the step is over for this rank, because somebody had finished that operation.
        """
        pending = self._communicator.pending
        joinable = self.slots is not None and not self.is_closed
        recovery = self._communicator.recover(joinable=joinable)
        over = recovery.finished and ends_step
        for member in recovery.lost:
            # What a rank handed over before it died is in the sum that another one has.
            undone = 0 if over else self._rows.samples_of(member.rank, pending)
            self.replay.at_risk[member.rank] = undone
        if not over:
            undo()
        if self.slots is not None and joinable and not over:
            self.slots.fill(recovery)
        return over
