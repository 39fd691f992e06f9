"""Events as JSON lines: every rank appends to one file, and any program can follow it.

A line holds ``time_s`` (Unix time, seconds), ``rank`` (original), ``event``, ``start`` (the number
of the start of the ranks) and that event's own fields. Each line is one ``write`` to a file opened
for appending, under a lock where hosts share the file
(:mod:`matex.records.shared_files.append_lock`).
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from matex.records.event_order import AGAIN, START, in_order
from matex.records.event_shape import is_event
from matex.records.json_text import to_json
from matex.records.shared_files.append_lock import AppendLock
from matex.records.shared_files.line_file import LineFile, read_lines

__all__ = [
    "EVENTS",
    "Event",
    "EventLog",
    "as_written",
    "give_room",
    "has_room",
    "keep_room",
    "read_events",
    "write_json",
    "write_text",
]

EVENTS = "events.jsonl"

# Reserved when a run begins, so that its summary can be written to a disk that is full by then.
_ROOM = ".room-for-the-summary"
_ROOM_BYTES = 256 << 10

# A thread that has not written its events by then hangs, longer than any wait for a lock.
_HANGS_S = 15.0

# Frequent events that only readers of the file need.
_OF_PROGRESS = ("progress", "timing")

Event = dict[str, Any]


class EventLog:
    """Event log of one rank. With ``path=None`` events are kept in memory, without progress notes.

    Events that cannot be written are kept, and written with a later event: a full disk or a removed
    directory stops no training. A directory that was removed is made again, with all events of this
    rank. Threads may write, and handlers of signals.

    Args:
        path: file; None without one.
        rank: original rank; -1 for the launcher.
        start: number of the start of the ranks, which the launcher counts on; 0, the default, if it
            is not known.

    ``listener`` is called with each event after it was written, and ``complain`` with one line at
    the first failed write.
    """

    def __init__(self, path: Path | None, rank: int, *, start: int = 0) -> None:
        self._rank = rank
        self._start = start
        self._append_lock = None if path is None else AppendLock(path.parent)
        self._file = None if path is None else LineFile(path, lock=self._append_lock)
        self._path = path
        self._turn = threading.RLock()
        self._is_writing = False
        self._own: list[Event] = []
        self._unwritten: list[Event] = []
        self._complained: set[str] = set()
        self.listener: Callable[[Event], None] = lambda event: None
        self.complain: Callable[[str], None] = lambda line: None

    @property
    def start(self) -> int:
        """Number of the start of the ranks, from 1; 0 if it is not known."""
        return self._start

    def write(self, event: str, **fields: Any) -> None:
        if event in AGAIN and self._start:
            self._start += 1
        number = {START: self._start} if self._start else {}
        record = {"time_s": time.time(), "rank": self._rank, "event": event, **number, **fields}
        if self._path is None:
            if event not in _OF_PROGRESS:
                self._own.append(record)
        else:
            self._unwritten.append(record)
            try:
                self._write_out()
            except OSError as error:
                self._complain_once(
                    "writing",
                    f"events cannot be written to {self._path} ({error.strerror}): "
                    "they are kept in memory, and written when they can be",
                )
            if self._append_lock is not None and self._append_lock.was_late:
                self._complain_once(
                    "locks",
                    f"the server of {self._path} locks no files in time: events go on without "
                    "locks, and some of several hosts may be lost",
                )
        self.listener(record)

    def _complain_once(self, about: str, line: str) -> None:
        if about not in self._complained:
            self._complained.add(about)
            self.complain(line)

    def _write_out(self) -> None:
        """Write what is unwritten, unless another call does: that writes this, too."""
        assert self._file is not None
        with self._mine() as is_mine:
            if not is_mine or self._is_writing:  # of which this is a signal's handler
                return
            self._is_writing = True
            try:
                while self._unwritten:
                    if self._file.is_removed:
                        removed = self._file.make_again()
                        self._unwritten[:0] = [e for e in removed if e["rank"] == self._rank]
                    records = self._unwritten[:]
                    self._file.append(records)
                    del self._unwritten[: len(records)]
            finally:
                self._is_writing = False

    @contextlib.contextmanager
    def _mine(self) -> Iterator[bool]:
        """Context of one thread, and whether it is this one.

        It is not where another hangs at the disk: what ends this process must not wait for that.
        """
        is_mine = self._turn.acquire(timeout=_HANGS_S)
        try:
            yield is_mine
        finally:
            if is_mine:
                self._turn.release()

    def all(self) -> list[Event]:
        """Events of all ranks so far if there is a file, else of this rank."""
        if self._path is None:
            return self._own
        with self._mine():
            written = read_events(self._path) if self._path.exists() else []
            return in_order([*written, *self._unwritten])


def read_events(path: Path) -> list[Event]:
    """Events in all complete lines of a file, in order of starts and time.

    An unfinished last line, parts of lines for which a disk had no room, and what is no event are
    left out.
    """
    return in_order(map(as_written, filter(is_event, read_lines(path))))


def as_written(event: Event) -> Event:
    """*event* from a file as it was given to be written: with NaN for metrics that are null."""
    if event["event"] != "epoch" or None not in event.values():
        return event
    return {name: math.nan if value is None else value for name, value in event.items()}


def write_json(path: Path, content: Any) -> None:
    """Write *content* atomically: a reader sees the whole file or none.

    Numbers that are not finite become null.
    """
    write_text(path, to_json(content, indent=2) + "\n")


def write_text(path: Path, content: str | bytes) -> None:
    """Write *content* atomically: a reader sees the whole file or none."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:  # a full disk: the partial file takes room, and is of no use
        aside.unlink(missing_ok=True)
        raise


def keep_room(directory: Path) -> None:
    """Reserve space in *directory* for the files that are written at the very end."""
    (directory / _ROOM).write_bytes(bytes(_ROOM_BYTES))


def has_room(directory: Path) -> bool:
    """Whether a run has reserved space in *directory*, and has not ended since."""
    return (directory / _ROOM).is_file()


def give_room(directory: Path) -> None:
    """Release the reserved space, before the last files; make the directory if it is missing.

    Raises:
        OSError: the directory cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _ROOM).unlink(missing_ok=True)
