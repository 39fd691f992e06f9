"""One place for a run's checkpoints: the memory of each host, or a directory of files."""

from __future__ import annotations

import time
from collections.abc import Callable

import checkpoints
from matex.records.events import EventLog

__all__ = ["Tier"]


class Tier:
    """A store, its writing thread, and the events of its saves. Local.

    ``number`` counts the saves, by which ranks take turns: it is equal on all ranks.
    ``last_s`` is the time of the clock at which the last one began.

    Args:
        name: name in events, ``memory`` or ``files``.
        store: directory in which checkpoints are kept.
        events: event file, which gets an event of every checkpoint.
        warn: function that prints a line for the user.
        on_written: function that the writing thread calls with each save that is safe now.
    """

    def __init__(
        self,
        name: str,
        store: checkpoints.Store,
        events: EventLog,
        warn: Callable[[str], None],
        on_written: Callable[[checkpoints.Saved], None],
    ) -> None:
        self.name = name
        self.store = store
        self.writer = checkpoints.BackgroundWriter(store, on_saved=self._on_saved)
        self.number = 0
        self._events = events
        self._warn = warn
        self._on_written = on_written
        self.last_s = 0.0
        self._is_failing = False

    def reset_clock(self) -> None:
        """Let the next save be due in a whole interval from now."""
        self.last_s = time.monotonic()

    def is_due(self, interval_s: float) -> bool:
        """Whether the last save began *interval_s* seconds ago."""
        return time.monotonic() - self.last_s >= interval_s

    def count(self) -> None:
        """Count another save, which begins."""
        self.number += 1
        self.reset_clock()

    def _on_saved(self, saved: checkpoints.Saved) -> None:
        """Record the outcome of a save; in the writing thread."""
        if saved.error is None:
            self._is_failing = False
            self._on_written(saved)
            if saved.path is None:  # a part of a file that another rank publishes
                return
            self._events.write(
                "checkpoint", tier=self.name, step=saved.step, path=str(saved.path),
                seconds=saved.seconds, busy_s=saved.busy_s, parts=saved.parts,
            )  # fmt: skip
            return
        self._events.write(
            "checkpoint-failed", tier=self.name, step=saved.step, reason=str(saved.error)
        )
        if not self._is_failing:
            self._is_failing = True
            what, who = f"checkpoint of step {saved.step}", "training goes on and will try again"
            if isinstance(saved.error, checkpoints.StaleWriter):
                who = "others have gone on without this rank"
            if saved.place:
                what, who = f"part of the {what}", "another rank writes it"
            self._warn(f"no {what}, {who}: {saved.error}")
