"""Sign of life that ranks write for a supervisor: one short file.

It holds the number of the running step and a counter that grows while any rank lives. The reader
compares contents, not times, so clocks of hosts may differ.

A client of NFS keeps what was written for half a minute and more, in which a launcher on another
host may take the ranks for dead. So on a file server a thread sees to it that the server has the
newest sign; while it waits for the server, it alone writes, because a second write would wait, too.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from matex.records.shared_files.file_systems import is_local

__all__ = ["FILE", "HeartbeatFile", "Sign", "read_sign"]

FILE = "progress"


class Sign(NamedTuple):
    """Step and counter; step -1 if no rank has written yet."""

    step: int = -1
    beats: int = 0


# The first signs are all written, so that a run which fails soon after each start is seen to fail
# at the same step; later ones at intervals, so that they cost this fraction of the time. The
# intervals are bounded: a rank whose write was held up once must not seem dead for minutes.
_ALL = 200
_PART = 1e-3
_MOST_S = 2.0
# Part of the server's time that these writes take, and the shortest interval.
_PART_SYNCING = 1e-2
_LEAST_SYNC_S = 0.2


class HeartbeatFile:
    """Heartbeat of one rank; local. Nothing is written without a *directory*.

    Args:
        directory: report directory; None without one.
        clock: function that returns the time, seconds.
        sync: function that returns when the server has what was written to a file;
            ``os.fdatasync`` by default.
    """

    def __init__(
        self,
        directory: Path | None,
        clock: Callable[[], float] = time.perf_counter,
        *,
        sync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self._file = -1
        self._beats = 0
        self._clock = clock
        self._next = 0.0
        self._directory = directory
        self._sync = sync
        self._newest = b""
        self._unsynced = threading.Event()
        self._is_syncing = False
        self._turn = threading.Lock()
        if directory is not None:
            self._file = _opened(directory)
            if not is_local(directory):
                name = "matex-heartbeat"
                threading.Thread(target=self._keep_synced, name=name, daemon=True).start()

    def beat(self, step: int) -> None:
        """Record that this rank lives and makes *step*; a failed write is ignored."""
        self._beats += 1
        if self._file < 0:
            return
        began = self._clock()
        if self._beats > _ALL and began < self._next:
            return
        self._newest = b"%019d %019d\n" % (step, self._beats)
        with self._turn:
            if not self._is_syncing:
                self._write(self._newest)
        self._unsynced.set()
        ended = self._clock()
        self._next = ended + min((ended - began) / _PART, _MOST_S)

    def _write(self, content: bytes) -> None:
        with contextlib.suppress(OSError):
            if not os.fstat(self._file).st_nlink and self._directory is not None:  # it was removed
                self._directory.mkdir(parents=True, exist_ok=True)
                before, self._file = self._file, _opened(self._directory)
                os.close(before)
            os.pwrite(self._file, content, 0)

    def _keep_synced(self) -> None:
        """Let the server have each newest sign, at intervals; in a thread of its own."""
        while self._unsynced.wait():
            with self._turn:
                self._is_syncing = True
            self._unsynced.clear()
            began = time.monotonic()
            self._write(self._newest)  # it may have been left to this thread
            with contextlib.suppress(OSError):
                self._sync(self._file)
            with self._turn:
                self._is_syncing = False
            time.sleep(min(max((time.monotonic() - began) / _PART_SYNCING, _LEAST_SYNC_S), _MOST_S))


def _opened(directory: Path) -> int:
    return os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def read_sign(directory: Path) -> Sign:
    """Newest sign of life in *directory*; an empty one if it cannot be read."""
    try:
        step, beats = (directory / FILE).read_text().split()
        return Sign(int(step), int(beats))
    except (OSError, ValueError):  # none yet, or unreachable, or half-written
        return Sign()
