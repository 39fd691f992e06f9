"""What happened, as JSON lines: every rank appends to one file, and any program can follow it.

A line holds ``time_s`` (Unix time, seconds), ``rank`` (original), ``event`` and
that event's own fields. Each line is one ``write`` to a file opened for
appending, so lines of several ranks do not mix on a POSIX file system.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["EVENTS", "Event", "EventLog", "read_events", "write_json", "write_text"]

EVENTS = "events.jsonl"

Event = dict[str, Any]


class EventLog:
    """Local to a rank. With ``path=None`` events are kept in memory only.

    ``listener`` hears the name of each event once it is written.
    """

    def __init__(self, path: Path | None, rank: int) -> None:
        self._rank = rank
        self._file = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        )
        self._path = path
        self._own: list[Event] = []
        self.listener: Callable[[str], None] = lambda event: None

    def write(self, event: str, **fields: Any) -> None:
        record = {"time_s": time.time(), "rank": self._rank, "event": event, **fields}
        self._own.append(record)
        if self._file is not None:
            os.write(self._file, (json.dumps(record) + "\n").encode())
        self.listener(event)

    def all(self) -> list[Event]:
        """Everybody's events so far where there is a file, else this rank's own."""
        return self._own if self._path is None else read_events(self._path)


def read_events(path: Path) -> list[Event]:
    """All whole lines of an event file, in order of time; an unfinished last line is left out."""
    events: list[Event] = []
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                events.append(json.loads(line))
    return sorted(events, key=lambda event: float(event["time_s"]))


def write_json(path: Path, content: Any) -> None:
    """Write *content* so that a reader sees the whole file or none."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, content: str | bytes) -> None:
    """Write *content* so that a reader sees the whole file or none."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
