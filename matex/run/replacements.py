"""Replacements of dead ranks, as managed by the leader."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import ft
from matex.records.events import EventLog
from matex.run.candidates import Candidates
from matex.run.launcher_client import LauncherClient
from matex.run.terminal import Terminal
from matex.run.waiting_newcomers import WaitingNewcomers
from matex.run.welcome import FOR_GOOD, GONE, Welcome

__all__ = ["Replacements"]

# Number of consecutive processes that ended before they could join, after which none is started.
_MOST_FAILURES = 3
_CONNECT_S = 180.0


class Replacements:
    """Starts processes for missing ranks, and says when one can join. Local.

    All ranks have one, and only the leader's acts: when a leader dies the processes that it started
    die with it, unless they have joined, and the next leader starts others.

    Args:
        communicator: ranks of the run.
        waiting_newcomers: newcomers that have reached a fit.
        candidates: processes that can become newcomers.
        events, terminal: records and lines of the run.
        launcher: arbiter for cut networks, which is told of admitted processes; None without one.
        welcome: function that returns the first message to the next newcomer.
        limit: largest number of processes.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        waiting_newcomers: WaitingNewcomers,
        candidates: Candidates,
        events: EventLog,
        terminal: Terminal,
        launcher: LauncherClient | None,
        *,
        welcome: Callable[[], Welcome],
        limit: int,
    ) -> None:
        self._communicator = communicator
        self._waiting_newcomers = waiting_newcomers
        self._candidates = candidates
        self._launcher = launcher
        self._events = events
        self._terminal = terminal
        self._welcome = welcome
        self._left = limit
        self.wanted = communicator.initial_size
        """Target number of ranks, spares included."""
        self._nobody_can_come = False
        self._first_free = communicator.initial_size
        self._host_of: dict[int, str] = {}  # of newcomers, by rank
        self._newcomers: list[ft.Newcomer] = []
        self._failures = 0

    def want(self, size: int, *, without: str = "") -> None:
        """Set the target number of ranks; equally on all ranks.

        Args:
            without: host on which no process may start any more; "" for none.
        """
        if self._left:
            self._left += max(0, size - self.wanted)  # those replace no dead rank
        self.wanted = size
        if without:
            self._candidates.close_host(without)

    def open(self, fit: int, trained: list[int], data: list[float]) -> None:
        """Let processes join from the first step of *fit* on; equally on all ranks.

        Args:
            fit, trained, data: see :meth:`matex.run.waiting_newcomers.WaitingNewcomers.open`.
        """
        self._failures = 0
        self._waiting_newcomers.open(fit, trained, data)

    @property
    def is_open(self) -> bool:
        """Whether processes start for missing ranks, and can join. Local; known on the leader."""
        return (
            self._waiting_newcomers.fit is not None and self._left > 0 and not self._nobody_can_come
        )

    def count(self) -> int:
        """Number of processes that can still join, with those on their way; on the leader."""
        more = self._candidates.count() if self.is_open else 0
        return min(len(self._newcomers) + more, sys.maxsize)

    def end(self) -> None:
        """End the processes that have not joined; at the end of the run."""
        for newcomer in self._newcomers:
            newcomer.dismiss("the run has ended")
        self._newcomers = []
        self._waiting_newcomers.end()
        if self._communicator.world.is_leader:
            self._candidates.dismiss()

    def is_one_ready(self) -> bool:
        """Whether a process can join after this step; on the leader, in each step.

        Here processes are started, and their messages received.
        """
        if self._waiting_newcomers.fit is None:
            return False
        missing = self._missing()
        if not missing and not self._newcomers:
            return False
        for newcomer in list(self._newcomers):
            self._look_after(newcomer)
        while missing > len(self._newcomers) and self._left > 0 and self._start_next():
            pass
        return self._waiting_newcomers.are_waiting and missing > 0

    def take(self) -> ft.Newcomer | None:
        """Process that joins now, as all ranks have agreed; None on all ranks but the leader."""
        if not self._waiting_newcomers.are_waiting:
            return None
        newcomer = self._waiting_newcomers.take()
        self._newcomers.remove(newcomer)
        return newcomer

    def joined(self, member: ft.Member | None, newcomer: ft.Newcomer | None, *, step: int) -> None:
        """Record that all ranks have admitted *member*, or that the admission failed."""
        if newcomer is None:
            return
        if member is None:
            self._failed(newcomer)
            return
        self._failures = 0
        if self._launcher is not None:
            self._launcher.admitted(self._communicator.world)
        took_s = time.monotonic() - newcomer.started_s
        self._events.write(
            "admitted", step=step, newcomer=member.rank, host=member.host, seconds=took_s
        )

    def _missing(self) -> int:
        return self.wanted - len(self._communicator.world.everyone)

    def _start_next(self) -> bool:
        """Start the next process; return whether there is one."""
        coming = [self._host_of[newcomer.rank] for newcomer in self._newcomers]
        found = self._candidates.next(coming, wanted=self.wanted)
        self._nobody_can_come = found is None
        if found is None:
            self._terminal.say_once(
                f"nobody takes the place of a lost rank: {self._candidates.nobody}"
            )
            return False
        self._left -= 1
        rank = max(self._first_free, *(rank + 1 for rank in self._communicator.hosts))
        self._first_free = rank + 1
        self._host_of[rank] = found.host
        self._newcomers.append(ft.Newcomer(rank, found.start(), self._welcome()._asdict()))
        self._events.write(
            "respawn", newcomer=rank, host=found.host, fit=self._waiting_newcomers.fit
        )
        where = f" on {found.host}" if self._communicator.world.spread else ""
        there = len(self._communicator.world.everyone)
        self._terminal.say(
            f"starting rank {rank}{where}: {self.wanted} ranks are wanted, and {there} there"
        )
        return True

    def announce(self) -> None:
        """Tell the waiting cold spares that this newcomer is a rank now. Local."""
        self._candidates.announce()

    def _look_after(self, newcomer: ft.Newcomer) -> None:
        message = newcomer.receive()
        if message is not None and GONE in message:
            newcomer.give_up(message[GONE])
            if message[FOR_GOOD]:
                self._left = 0
        elif message is not None and not self._waiting_newcomers.answer(newcomer, message):
            self._left = 0
        is_silent = newcomer.member is None and not newcomer.failure
        since_s = newcomer.welcomed_s or newcomer.started_s
        if is_silent and time.monotonic() - since_s > _CONNECT_S:
            newcomer.give_up(f"it did not say a word for {_CONNECT_S:.0f} s")
        if newcomer.failure:
            self._newcomers.remove(newcomer)
            self._waiting_newcomers.forget(newcomer)
            self._failed(newcomer)

    def _failed(self, newcomer: ft.Newcomer) -> None:
        self._failures += 1
        self._events.write("respawn-failed", newcomer=newcomer.rank, reason=newcomer.failure)
        if self._failures >= _MOST_FAILURES:
            self._left = 0
        if not self._left:
            self._terminal.say(
                f"no more processes are started in the place of lost ranks: rank {newcomer.rank} "
                f"ended before it could join: {newcomer.failure}"
            )
