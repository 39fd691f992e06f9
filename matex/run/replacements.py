"""Replacements of dead ranks, as managed by the leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import ft
from matex.checkpointing.stop_requests import StopRequest
from matex.config import Config
from matex.data.sketch import are_same_data
from matex.files.private import PrivateFiles
from matex.records.events import EventLog
from matex.run.candidates import Candidates
from matex.run.launcher_client import LauncherClient
from matex.run.terminal import Terminal

__all__ = ["DATA", "FIT", "FOR_GOOD", "GONE", "OVER", "TRAINED", "Replacements", "Welcome"]

#: Fields of messages between a newcomer and the leader: the fit whose first step the newcomer has
#: reached, with the variable counts of trained models and the sketch of its data; the history of a
#: finished fit; the reason for which it ends, and whether another newcomer would end as well.
FIT, TRAINED, DATA, OVER = "fit", "trained", "data", "over"
GONE, FOR_GOOD = "gone", "for good"

# Number of consecutive processes that ended before they could join, after which none is started.
_MOST_FAILURES = 3
_CONNECT_S = 180.0
_OTHER_DATA = (
    "its data for this fit are not those of the others, as where they are made of a model that was "
    "trained before; --checkpoint DIR lets it have such a model"
)


class Welcome(NamedTuple):
    """First message to a newcomer, with all that it must know before it runs the script."""

    ranks: int
    """Number of ranks at the start."""
    active: int
    """Largest number of ranks that train."""
    threads: int
    """Threads of each rank."""
    hosts: int
    """Number of hosts."""
    virtual: int
    """Number of virtual workers, 0 if ranks share the work."""
    key: str
    """Secret text, equal on all ranks."""
    plan: str
    """Plan of the sums, equal on all ranks."""
    elapsed_s: float
    """Seconds since the start."""
    histories: list[tuple[int, dict[str, Any]]]
    """Number and history of each finished fit."""


class Replacements:
    """Starts processes for missing ranks, and says when one can join. Local.

    All ranks have one, and only the leader's acts: when a leader dies the processes that it started
    die with it, unless they have joined, and the next leader starts others.

    Args:
        config: options of the run; ``respawn`` is the largest number of processes.
        communicator: ranks of the run.
        candidates: processes that can become newcomers.
        events, terminal: records and lines of the run.
        stop_request: clock of the run's duration.
        launcher: arbiter for cut networks, which is told of admitted processes; None without one.
        agreed: function that returns the values that all ranks have agreed on, the fields
            ``active``, ``key``, ``virtual`` and ``plan`` of :class:`Welcome`.
        threads: threads of each rank.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        candidates: Candidates,
        events: EventLog,
        terminal: Terminal,
        stop_request: StopRequest,
        launcher: LauncherClient | None,
        *,
        threads: int,
        agreed: Callable[[], dict[str, Any]],
    ) -> None:
        self._communicator = communicator
        self._candidates = candidates
        self._launcher = launcher
        self._events = events
        self._terminal = terminal
        self._stop_request = stop_request
        self._threads = threads
        self._agreed = agreed
        self._left = config.respawn
        self.wanted = communicator.initial_size
        """Target number of ranks, spares included."""
        self.files: PrivateFiles | None = None
        """Files of the script, which newcomers take over; None for one rank."""
        self._nobody_can_come = False
        self._first_free = communicator.initial_size
        self._host_of: dict[int, str] = {}  # of newcomers, by rank
        self._fit: int | None = None
        self._trained: list[int] = []
        self._data: list[float] = []
        self._histories: dict[int, dict[str, Any]] = {}
        self._newcomers: list[ft.Newcomer] = []
        self._waiting: dict[int, ft.Newcomer] = {}  # newcomers that have reached the fit, by rank
        self._late: list[tuple[ft.Newcomer, dict[str, Any]]] = []  # for a fit of that history
        self._failures = 0

    @property
    def histories(self) -> list[tuple[int, dict[str, Any]]]:
        """Number and history of each fit so far, as JSON values."""
        return list(self._histories.items())

    def inherit(self, histories: Iterable[tuple[int, dict[str, Any]]], *, wanted: int) -> None:
        """Set the *histories* of fits that this rank has passed over, and the target number."""
        self._histories.update({int(fit): history for fit, history in histories})
        self.wanted = wanted

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
            fit: number of the fit in the script, from 0.
            trained: number of variables of each model and optimizer that was trained so far.
            data: sketch of its data, which must equal a newcomer's.
        """
        self._fit, self._trained, self._data, self._failures = fit, trained, data, 0
        for newcomer, history in self._late:
            newcomer.tell({OVER: history})
        self._late = []

    @property
    def is_open(self) -> bool:
        """Whether processes start for missing ranks, and can join. Local; known on the leader."""
        return self._fit is not None and self._left > 0 and not self._nobody_can_come

    def close(self) -> None:
        """Let no process join any more, after the last step of the fit; equally on all ranks."""
        self._fit = None

    def note_history(self, fit: int, history: dict[str, Any]) -> None:
        """Record that a fit is over; local.

        Newcomers too late for it are told when the next fit begins, once its end is saved.

        Args:
            fit: number of the fit.
            history: its history, from :func:`matex.keras_hooks.history_of`.
        """
        self._histories[fit] = history
        self._late += [(newcomer, history) for newcomer in self._waiting.values()]
        self._waiting.clear()

    def end(self) -> None:
        """End the processes that have not joined; at the end of the run."""
        for newcomer in self._newcomers:
            newcomer.dismiss("the run has ended")
        self._newcomers, self._waiting, self._late = [], {}, []
        if self._communicator.world.is_leader:
            self._candidates.dismiss()

    def is_one_ready(self) -> bool:
        """Whether a process can join after this step; on the leader, in each step.

        Here processes are started, and their messages received.
        """
        if self._fit is None:
            return False
        missing = self._missing()
        if not missing and not self._newcomers:
            return False
        for newcomer in list(self._newcomers):
            self._look_after(newcomer)
        while missing > len(self._newcomers) and self._left > 0 and self._has_one_come():
            pass
        return bool(self._waiting) and missing > 0

    def take(self) -> ft.Newcomer | None:
        """Process that joins now, as all ranks have agreed; None on all ranks but the leader."""
        if not self._waiting:
            return None
        newcomer = self._waiting.pop(min(self._waiting))
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

    def _has_one_come(self) -> bool:
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
        welcome = Welcome(
            ranks=self._communicator.initial_size,
            threads=self._threads,
            hosts=len(set(self._communicator.hosts.values())),
            elapsed_s=self._stop_request.elapsed_s,
            histories=self.histories,
            **self._agreed(),
        )
        rank = max(self._first_free, *(rank + 1 for rank in self._communicator.hosts))
        self._first_free = rank + 1
        self._host_of[rank] = found.host
        self._newcomers.append(ft.Newcomer(rank, found.come(), welcome._asdict()))
        self._events.write("respawn", newcomer=rank, host=found.host, fit=self._fit)
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
        message = newcomer.heard()
        if message is not None and GONE in message:
            newcomer.give_up(message[GONE])
            if message[FOR_GOOD]:
                self._left = 0
        elif message is not None:
            self._arrived(newcomer, message)
        is_silent = newcomer.member is None and not newcomer.failure
        since_s = newcomer.welcomed_s or newcomer.started_s
        if is_silent and time.monotonic() - since_s > _CONNECT_S:
            newcomer.give_up(f"it did not say a word for {_CONNECT_S:.0f} s")
        if newcomer.failure:
            self._newcomers.remove(newcomer)
            self._waiting.pop(newcomer.rank, None)
            self._failed(newcomer)

    def _arrived(self, newcomer: ft.Newcomer, message: ft.Message) -> None:
        """Answer a newcomer at the first step of a fit, or let it wait for that fit."""
        fit = message[FIT]
        if fit in self._histories:
            newcomer.tell({OVER: self._histories[fit]})
        elif self._fit is not None and fit < self._fit:
            newcomer.give_up(f"fit number {fit + 1} ended in an error, which is not made again")
            self._left = 0
        elif message[TRAINED] != self._trained and fit == self._fit:
            newcomer.give_up("it cannot have the models that were trained before this fit")
            self._left = 0
        elif fit == self._fit and not are_same_data(message[DATA], self._data):
            newcomer.give_up(_OTHER_DATA)
            self._left = 0
        else:
            self._waiting[newcomer.rank] = newcomer

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
