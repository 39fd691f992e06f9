"""Kills ranks of a running training by their process ids, when what they write says so."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any

__all__ = ["MOMENTS", "Killer"]

#: The moments at which somebody is killed: so many steps after the last time; or when a process is
#: started, begins its script, is admitted, or has taken a place.
MOMENTS = ("steps", "respawn", "start", "admitted", "took-over")

Event = dict[str, Any]


class Killer:
    """Reads the events of a run as they come, and kills.

    Args:
        events: ``events.jsonl`` of the run.
        ranks: number of ranks at the start.
        draw: source of what is random: who, and when.
        every: steps between two kills at least.
        only_whole: whether it waits until no rank is missing before it kills again.
        keep: ranks that are never killed.
    """

    def __init__(
        self,
        events: Path,
        ranks: int,
        draw: random.Random,
        *,
        every: int,
        only_whole: bool,
        keep: Collection[int] = (),
    ) -> None:
        self._path = events
        self._ranks = ranks
        self._draw = draw
        self._every = every
        self._only_whole = only_whole
        self._keep = set(keep)
        self._offset = 0
        self._pids: dict[int, int] = {}
        self._host_of: dict[int, str] = {}
        self._members: set[int] = set()
        self._newcomers: set[int] = set()
        self._next_step = every
        self._moment = "steps"
        self.wanted = ranks
        """The number of ranks that there are to be."""
        self.step = 0
        self.killed: list[tuple[int, str]] = []
        self.events: list[Event] = []

    @property
    def is_whole(self) -> bool:
        """Whether no rank is missing, as far as the events say."""
        return len(self._members) >= self.wanted

    def look(self, *, kills: bool) -> None:
        """Take note of new events, and kill where it is time."""
        for event in self._new_events():
            self._note(event)
            if kills and self._is_time(event):
                self.strike()
                self._next_step = self.step + self._every
                self._moment = "steps" if self._only_whole else self._draw.choice(MOMENTS)

    def _new_events(self) -> list[Event]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = [json.loads(line) for line in whole.splitlines()]
        self.events += found
        return found

    def _note(self, event: Event) -> None:
        name = event["event"]
        if name == "start":
            self._pids[event["rank"]] = event["pid"]
            self._host_of[event["rank"]] = event["host"]
            if event["rank"] < self._ranks:
                self._members.add(event["rank"])
            else:
                self._newcomers.add(event["rank"])
        elif name == "progress":
            self.step = max(self.step, event["step"])
        elif name == "recovered":
            self._members -= set(event["lost"])
        for spare in event.get("joined", {}).values():
            self._newcomers.discard(spare)
            self._members.add(spare)

    def _is_time(self, event: Event) -> bool:
        if event["event"] == "progress":
            awaited = self._moment == "steps" and not self._only_whole
            return self.step >= self._next_step and (self.is_whole or awaited)
        name: str = event["event"]
        return name == self._moment and not self._only_whole

    def strike(self) -> None:
        """Kill one, two at once, or all of a host, of those that live; one member stays."""
        draw = self._draw
        members = sorted(self._members - self._keep)
        most = min(len(members), len(self._members) - 1)
        victims = draw.sample(members, min(most, 1 + (draw.random() < 0.2)))
        hosts = sorted({self._host_of[rank] for rank in members})
        if len(hosts) > 1 and draw.random() < 0.2:
            host = draw.choice(hosts)
            victims = [rank for rank in members if self._host_of[rank] == host]
        if self._newcomers and not self._only_whole and draw.random() < 0.3:
            victims = [draw.choice(sorted(self._newcomers))]
        for rank in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[rank], signal.SIGKILL)
                self.killed.append((rank, self._moment))
            self._members.discard(rank)
            self._newcomers.discard(rank)
