"""Signals to the launcher, and its reactions."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from matex.launcher.job import Job
from matex.launcher.lines import say_in_handler
from matex.records.events import EventLog

__all__ = ["Signals"]

_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)


class Signals:
    """Signals to this program, answered while :meth:`handled` is entered.

    SIGTERM, SIGINT, SIGUSR1 and SIGHUP tell the ranks to save and to leave, and a second one of
    them ends the ranks at once. SIGUSR2 asks which hosts they are to leave.

    Args:
        log: log of events.
        on_drain: function that is called at SIGUSR2, between two instructions of any other.
    """

    def __init__(self, log: EventLog, on_drain: Callable[[], None]) -> None:
        self._log = log
        self._on_drain = on_drain
        self._told: list[signal.Signals] = []
        self._job: Job | None = None
        self._have_met = False

    @property
    def leave(self) -> bool:
        """Whether the ranks have a stop request."""
        return bool(self._told)

    def left(self, reason: str | None) -> str:
        """Reason for a missing summary after a stop request, of ranks that ended for *reason*."""
        stop = f"asked to stop ({self._told[0].name})"
        if reason is not None:
            return f"{reason}, {stop}"
        return f"{stop}, and ended by another signal before all ranks had said so"

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Context in which signals are handled; the running job is ended at its end."""
        answers = {number: self._leave for number in _LEAVE} | {signal.SIGUSR2: self._drain}
        handled = [
            n for n in answers if signal.getsignal(n) is not signal.SIG_IGN
        ]  # as under nohup
        before = {number: signal.signal(number, answers[number]) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._job is not None:
                self._job.end()

    @contextlib.contextmanager
    def passed_to(self, job: Job) -> Iterator[None]:
        """Context in which stop requests go to *job*, from :meth:`ranks_have_met` on.

        Before that SIGUSR1 would end mpiexec and ranks that do not handle it yet.
        """
        self._job, self._have_met = job, False
        yield
        self._job, self._have_met = None, False

    def ranks_have_met(self) -> None:
        """Pass on stop requests from now on, and at once one that was received before."""
        if not self._have_met:
            self._have_met = True
            if self.leave and self._job is not None:
                self._job.tell(signal.SIGUSR1)

    def _leave(self, number: int, frame: Any) -> None:
        """Pass on the first signal as a stop request; end the ranks at a second one.

        The request is SIGUSR1, the only signal that mpiexec forwards without ending the job itself.
        """
        self._told.append(signal.Signals(number))
        name, is_first = self._told[-1].name, len(self._told) == 1
        if self._job is not None:
            if not is_first:
                self._job.end_soon()
            elif self._have_met:
                self._job.tell(signal.SIGUSR1)
        self._log.write("told", signal=name)
        if is_first:
            when = "after the next step" if self._have_met else "before the ranks have met"
            say_in_handler(f"{name}: leaving {when}; a second signal ends at once")

    def _drain(self, number: int, frame: Any) -> None:
        self._on_drain()
