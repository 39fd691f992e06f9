"""Lock of a file on a file server while a process appends to it.

A client of NFS knows no other's appends: it asks for the size and then writes there, so of two
lines that hosts write at one moment one is lost. Under a lock it asks anew, and has written before
it lets go. On a local disk the kernel orders them, and nothing is locked.

The server's lock daemon may hang, and with it any call that asks it. So a thread asks, and the
writer waits for it for a few seconds at most. Then it writes without the lock, as it does for the
next minute without waiting again: a line may be lost, but training goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from matex.records.shared_files.file_systems import is_local

__all__ = ["AppendLock"]

_MOST_S = 5.0
_REST_S = 60.0
# Interval at which the thread asks for a lock that another process has.
_LEAST_ASK_S, _MOST_ASK_S = 0.002, 0.02

Ask = Callable[[int, int], object]


class _Holder:
    """A thread that takes the lock of an open file, and lets go of it when it is told to."""

    def __init__(self, file: int, ask: Ask) -> None:
        self._file = os.dup(file)  # the writer may close its own
        self._ask = ask
        self._answered = threading.Event()
        self._end = threading.Event()
        self.error: OSError | None = None
        self._thread = threading.Thread(target=self._hold, name="matex-append-lock", daemon=True)
        self._thread.start()

    def is_answered(self, timeout_s: float) -> bool:
        """Whether the lock was taken or refused, after at most *timeout_s* seconds."""
        return self._answered.wait(timeout_s)

    def end(self) -> None:
        """Let go of the lock, now or when it is taken."""
        self._end.set()

    def is_gone(self, timeout_s: float) -> bool:
        """Whether the thread has ended, after at most *timeout_s* seconds."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _hold(self) -> None:
        try:
            while True:
                try:
                    # flock, which Linux makes a lock of the whole file on the server: those of
                    # fcntl are lost when any other descriptor of the file is closed.
                    self._ask(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._end.wait(random.uniform(_LEAST_ASK_S, _MOST_ASK_S)):
                        return
            self._answered.set()
            self._end.wait()
            self._ask(self._file, fcntl.LOCK_UN)
        except OSError as error:  # a file system without locks
            self.error = error
            self._answered.set()
        finally:
            os.close(self._file)


class AppendLock:
    """Lock for appends of this process to a file of several hosts. Local.

    ``was_late`` is whether the lock was once not there in time.

    Args:
        directory: directory of the file.
        most_s: longest wait of a writer, seconds; 5 by default.
        ask: function that takes or releases a lock; ``fcntl.flock`` by default.
    """

    def __init__(self, directory: Path, *, most_s: float = _MOST_S, ask: Ask = fcntl.flock) -> None:
        self._is_used = not is_local(directory)
        self._most_s = most_s
        self._ask = ask
        self._holder: _Holder | None = None
        self._again = 0.0
        self.was_late = False

    @contextlib.contextmanager
    def held(self, file: int) -> Iterator[None]:
        """Context in which the open *file* is locked, if it can be in time."""
        holder = (
            self._holder_of(file) if self._is_used and time.monotonic() >= self._again else None
        )
        try:
            yield
        finally:
            if holder is not None:
                holder.end()

    def _holder_of(self, file: int) -> _Holder | None:
        """The holder of the lock; None if there is none in time."""
        if self._holder is None or self._holder.is_gone(self._most_s):
            try:
                self._holder = _Holder(file, self._ask)
            except (OSError, RuntimeError):  # no more files or threads
                return None
            if self._holder.is_answered(self._most_s):
                self._is_used = self._holder.error is None
                return self._holder if self._is_used else None
            self._holder.end()
        self.was_late = True
        self._again = time.monotonic() + _REST_S
        return None
