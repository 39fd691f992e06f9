"""Reading of new events at the end of a growing event file."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matex.records.event_order import in_order
from matex.records.event_shape import is_event
from matex.records.events import Event, as_written

__all__ = ["Arrived", "EventTail"]

# Length of the beginning that identifies a file: another file has another time in its first line.
_HEAD = 200  # bytes

# The file is not there now: a run that begins anew removes it, and a file system may be slow.
_ABSENT = (errno.ENOENT, errno.ESTALE)


class Arrived(NamedTuple):
    """New events in order of starts and time, and whether the file was replaced by another."""

    events: list[Event]
    anew: bool


class EventTail:
    """Reads the events appended to *path* since the last read.

    The file is opened each time, so that a network file system asks its server for new content. An
    incomplete last line is read when it is complete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head = b""
        self._offset = 0

    def read(self) -> Arrived:
        """Events since the last call; empty if there is no file.

        Raises:
            OSError: the file exists, and cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD)
                size = file.seek(0, 2)
                anew = not head.startswith(self._head) or size < self._offset
                if anew:
                    self._offset = 0
                file.seek(self._offset)
                content = file.read()
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return Arrived([], False)
        content = content[: content.rfind(b"\n") + 1]  # whole lines
        self._offset += len(content)
        self._head = head[: self._offset]
        return Arrived(in_order(_events_in(content)), anew)


def _events_in(content: bytes) -> Iterator[Event]:
    """Events of complete lines, without damaged ones and those cut off by a full disk."""
    for line in content.splitlines():
        try:
            event: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_event(event):
            yield as_written(event)
