"""Records of a run on this rank: its events, counts, trace and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ft
from matex.config import Config
from matex.records.events import EventLog
from matex.records.step_report import StepReport
from matex.records.summary import Totals
from matex.records.trace_part import TracePart, part_name
from matex.run.event_listeners import EventListeners
from matex.run.ledger import RunLedger
from matex.run.progress_notes import ProgressNotes
from matex.run.ranks import RunRanks
from matex.run.recovery_log import RecoveryLog
from matex.run.terminal import Terminal

__all__ = ["RunRecords"]


class RunRecords:
    """All that a rank writes down of its run, and the order in which a step goes into it. Local.

    Args:
        config, communicator, ranks: options and ranks of the run.
        events: event log of this rank.
        terminal: lines of the run.
        faults: injector of the run, which hears of each event after it was written.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        ranks: RunRanks,
        events: EventLog,
        terminal: Terminal,
        faults: ft.Injector,
    ) -> None:
        self.events = events
        totals = Totals(
            world_size_start=ranks.active, spares=config.spares, strategy=config.strategy
        )
        self.ledger = RunLedger(totals)
        parts = communicator, events, self.ledger
        self.recoveries = RecoveryLog(*parts, terminal, size_of=ranks.size_of)
        part = config.report and config.report / part_name(communicator.world.me.rank)
        self.trace = TracePart(part, terminal.warn)
        self.progress = ProgressNotes(*parts, self.recoveries, size_of=ranks.size_of)
        events.complain = terminal.say
        events.listener = EventListeners(
            config.report, self.trace, faults,
            leads=lambda: communicator.world.is_leader, complain=terminal.warn,
        ).receive  # fmt: skip

    def note(self, event: str, **fields: Any) -> None:
        """Write *event* with its *fields*, and the number of the next step."""
        self.events.write(event, step=self.ledger.step, **fields)

    def step_done(self, report: StepReport, model: Any | None) -> None:
        """Count and record a finished step.

        Args:
            model: model whose state is hashed after a recovery.
        """
        ledger = self.ledger
        ledger.count_step(report)
        self.recoveries.step_done(report, model)
        self.trace.step(ledger.step, report)
        self.progress.step_done(report)
        ledger.next_step()

    def go_on_from(self, counts: Mapping[str, Any]) -> None:
        """Continue in another rank's place, from its counts; see :meth:`RunLedger.counts`."""
        self.recoveries.joined()
        self.ledger.go_on_from(counts)
