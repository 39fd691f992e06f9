"""Record of deaths in a run: recoveries, replayed steps, lost spares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ft
from matex.checkpointing.model_state import state_hash
from matex.records.events import EventLog
from matex.records.fault_events import (
    lost_spares,
    record_death_cost,
    record_joining,
    record_recovery,
    recovery_line,
)
from matex.records.step_report import StepReport
from matex.run.ledger import RunLedger
from matex.run.terminal import Terminal

__all__ = ["RecoveryLog"]


class RecoveryLog:
    """Writes deaths as events, and prints them on the terminal. Local.

    Args:
        communicator: ranks of the run.
        events, ledger, terminal: records, counts and lines of the run.
        size_of: function that returns the number of training ranks of a world.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        events: EventLog,
        ledger: RunLedger,
        terminal: Terminal,
        *,
        size_of: Callable[[ft.World], int],
    ) -> None:
        self._communicator = communicator
        self._events = events
        self._ledger = ledger
        self._terminal = terminal
        self._size_of = size_of
        self._awaits_step = True
        self._spares_lost: set[int] = set()
        self._leaving: set[int] = set()
        self._generation = 0  # of the last recovery that changed the working ranks, or 0

    def joined(self) -> None:
        """Record that this rank has taken another one's place."""
        self._generation = self._communicator.world.generation

    def part_with(self, ranks: Iterable[int]) -> None:
        """Take note that *ranks* leave on request, so that none of them counts as lost."""
        self._leaving.update(ranks)

    def record(self, recovery: ft.Recovery) -> None:
        """Record *recovery*; the communicator calls this after each."""
        before, after = recovery.before, recovery.after
        living = {member.rank for member in (*after.members, *after.spares)}
        self.spares_lost(m.rank for m in before.spares if m.rank not in living)
        if not recovery.lost and not recovery.replaced:  # a peer was already leaving
            return
        self._generation = after.generation
        sizes = self._size_of(before), self._size_of(after)
        step = self._ledger.step
        if recovery.lost:
            self._awaits_step = True
            record_recovery(
                self._events, recovery, step=step, sizes=sizes, asked_to_leave=self._leaving
            )
        else:
            record_joining(self._events, recovery, step=step, sizes=sizes)
        started_with = self._ledger.totals.world_size_start
        line = recovery_line(
            recovery, step=step, size=sizes[1], of=started_with, asked_to_leave=self._leaving
        )
        self._terminal.say(line)

    def step_done(self, report: StepReport, model: Any | None) -> None:
        """Record the recovery that a finished step completes.

        Args:
            model: model whose state is hashed after a recovery.
        """
        step, generation = self._ledger.step, self._generation
        if self._awaits_step:
            self._awaits_step = False
            self._events.write("first-step", step=step, generation=generation)
            if model is not None and generation:
                digest = state_hash(model)
                self._events.write("state", step=step, generation=generation, hash=digest)
        if report.death_cost is not None:
            record_death_cost(self._events, report.death_cost, step=step, generation=generation)

    def spares_lost(self, ranks: Iterable[int]) -> None:
        """Record that spares died while they waited, which interrupts no rank."""
        unknown = sorted(set(ranks) - self._spares_lost)
        self._spares_lost.update(unknown)
        if not unknown or not self._communicator.world.is_leader:
            return
        told_before = lost_spares(self._events.all())  # by a leader that has died
        for rank in unknown:
            if rank not in told_before:
                self._events.write("spare-lost", step=self._ledger.step, lost=[rank])
                self._terminal.say(f"lost rank {rank}, a spare that waited")
