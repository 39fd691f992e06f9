"""TensorBoard files that a leader writes during its run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from matex.keras_hooks import OpError
from matex.keras_hooks.event_files import EventFile
from matex.records.curve_files import new_curve_file
from matex.records.events import Event
from matex.records.scalars import ScalarReading, Scalars

__all__ = ["ScalarLog"]


class ScalarLog:
    """Writes the curves of the leader's events; local. Each leader writes its own files.

    Points that cannot be written are kept, and written with a later event to a file of their own: a
    full disk stops no training. A directory that was removed is made again, for later points.

    Args:
        directory: directory for TensorBoard; None writes nothing.
        complain: function called with one line, at the first failed write.
    """

    def __init__(self, directory: Path | None, complain: Callable[[str], None]) -> None:
        self._directory = directory
        self._complain = complain
        self._complained = False
        self._reading = ScalarReading()
        self._unwritten: list[Scalars] = []
        self._file: EventFile | None = None

    def write(self, event: Event, *, leads: bool) -> None:
        """Write the new points of *event* of this rank.

        Args:
            leads: whether this rank writes for all.
        """
        if self._directory is None:
            return
        new = self._reading.read(event)
        if new is None or not leads:
            return
        self._unwritten.append(new)
        try:
            self._write_out(self._directory)
        except (OSError, OpError) as error:
            with contextlib.suppress(OSError, OpError):
                self._drop_file()
            if not self._complained:
                self._complained = True
                reason = str(error.strerror if isinstance(error, OSError) else error.message)
                reason = reason.rpartition("; ")[2]  # after the path, from TensorFlow
                self._complain(f"{self._directory} cannot be written: {reason}")

    def _write_out(self, directory: Path) -> None:
        if self._file is not None and self._file.is_removed:
            self._drop_file()
        if self._file is None:
            self._file = EventFile(directory / new_curve_file())
        for new in self._unwritten:
            if new.forgets_from is not None:
                self._file.forget_from(new.time_s, new.forgets_from)
            self._file.add(new.time_s, new.step, new.values, new.text)
        self._file.flush()
        self._unwritten = []

    def _drop_file(self) -> None:
        """Close the file: one with half a record cannot be read beyond it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
