"""Watchdog over the steps of a run, and signs of life for the launcher."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import ft
from matex.config import Config
from matex.records.events import EventLog
from matex.records.launcher_protocol.heartbeat_file import HeartbeatFile
from matex.run.ledger import RunLedger
from matex.run.terminal import Terminal
from matex.run.timeouts import COMPILERS, MEASURED_STEPS, STOPPED_S, WORK_S, patience, step_limit

__all__ = ["StepWatch"]


class StepWatch:
    """The watchdog of a run, and the time limit of its steps. Local.

    Args:
        config: options of the run.
        communicator: ranks of the run.
        events, ledger, terminal: records, counts and lines of the run.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        events: EventLog,
        ledger: RunLedger,
        terminal: Terminal,
    ) -> None:
        self._communicator = communicator
        self._events = events
        self._ledger = ledger
        self._is_measured = config.hang_timeout is None
        self._step_limit_s: float | None = None
        self._heartbeat = HeartbeatFile(config.report)
        self.watchdog = ft.Watchdog(
            timeout_s=config.hang_timeout or WORK_S,
            stopped_after_s=STOPPED_S,
            neighbours=lambda: communicator.world.neighbours,
            patience=lambda: patience(communicator.world.place, communicator.world.size),
            compilers=COMPILERS,
            say=terminal.warn,
            beat=self._beat,
            may_be_given_up=lambda: ft.may_be_given_up(communicator.world),
        )

    def around_step(self) -> AbstractContextManager[None]:
        """Context of the making of a step, which must not take too long without progress."""
        return self.watchdog.working(timeout_s=self._step_limit_s)

    def step_done(self) -> None:
        """Note progress, after a step was counted; the limit follows from the first steps."""
        self.watchdog.progress()
        self.watchdog.together()
        self._beat()
        totals = self._ledger.totals
        if totals.own_steps == MEASURED_STEPS and self._is_measured:
            self._step_limit_s = step_limit(totals.step_s)
            self._events.write(
                "time-outs", step_s=self._step_limit_s, work_s=WORK_S, stopped_s=STOPPED_S
            )

    def _beat(self) -> None:
        """Give a sign of life to the launcher, on the leader."""
        if self._communicator.world.is_leader:
            with contextlib.suppress(OSError):  # training goes on without
                self._heartbeat.beat(self._ledger.step)
