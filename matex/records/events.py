"""Events as JSON lines: every rank appends to one file, and any program can follow it.

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

from matex.records.line_file import LineFile, read_lines

__all__ = [
    "EVENTS",
    "Event",
    "EventLog",
    "give_room",
    "keep_room",
    "read_events",
    "write_json",
    "write_text",
]

EVENTS = "events.jsonl"

# Taken when a run begins, so that its summary can be written to a disk that is full by then.
_ROOM = ".room-for-the-summary"
_ROOM_BYTES = 256 << 10

# They come again and again, and nobody but who follows the file wants them.
_OF_PROGRESS = ("progress", "timing")

Event = dict[str, Any]


class EventLog:
    """Local to a rank. With ``path=None`` events are kept in memory, but for notes of progress.

    What cannot be written is kept, and written with a later event: a full disk or a directory that
    was removed stops no training. A directory that is gone is made again, with all events of this
    rank.

    ``listener`` hears of each event once it is written, and ``complain`` gets one line the
    first time that one cannot be.
    """

    def __init__(self, path: Path | None, rank: int) -> None:
        self._rank = rank
        self._file = None if path is None else LineFile(path)
        self._path = path
        self._own: list[Event] = []
        self._unwritten: list[Event] = []
        self._complained = False
        self.listener: Callable[[Event], None] = lambda event: None
        self.complain: Callable[[str], None] = lambda line: None

    def write(self, event: str, **fields: Any) -> None:
        record = {"time_s": time.time(), "rank": self._rank, "event": event, **fields}
        if self._path is None:
            if event not in _OF_PROGRESS:
                self._own.append(record)
        else:
            self._unwritten.append(record)
            try:
                self._write_out()
            except OSError as error:
                if not self._complained:
                    self._complained = True
                    self.complain(
                        f"events cannot be written to {self._path} ({error.strerror}): "
                        "they are kept in memory, and written when they can be"
                    )
        self.listener(record)

    def _write_out(self) -> None:
        assert self._file is not None
        if self._file.is_removed:
            before = [e for e in self._file.make_again() if e["rank"] == self._rank]
            self._unwritten = before + self._unwritten
        self._file.append(self._unwritten)
        self._unwritten = []

    def all(self) -> list[Event]:
        """Everybody's events so far where there is a file, else this rank's own."""
        if self._path is None:
            return self._own
        written = read_events(self._path) if self._path.exists() else []
        return sorted([*written, *self._unwritten], key=_time_of)


def _time_of(event: Event) -> float:
    return float(event["time_s"])


def read_events(path: Path) -> list[Event]:
    """All whole lines of an event file, in order of time.

    Left out are an unfinished last line, and parts of lines for which a disk had no room.
    """
    return sorted(read_lines(path), key=_time_of)


def write_json(path: Path, content: Any) -> None:
    """Write *content* so that a reader sees the whole file or none."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, content: str | bytes) -> None:
    """Write *content* so that a reader sees the whole file or none."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:  # a full disk: what is there of it takes room, and serves nobody
        aside.unlink(missing_ok=True)
        raise


def keep_room(directory: Path) -> None:
    """Reserve space in *directory* for the files that are written at the very end."""
    (directory / _ROOM).write_bytes(bytes(_ROOM_BYTES))


def give_room(directory: Path) -> None:
    """Give that room back, just before; and make the directory where it is gone.

    Raises:
        OSError: it cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _ROOM).unlink(missing_ok=True)
