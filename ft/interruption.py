"""Interruption of operations that cannot complete after a death although they wait for live ranks.

MPI ends an operation that waits for a rank known to be dead. An operation that waits for a rank
which is cut off as well goes on waiting until the failure detector has found that rank, too. The
detector finds one rank at a time, between hosts one every 40 s or so. Meanwhile the launcher
may have given all ranks up.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["Interruption"]

_EVERY_S = 1.0


class Interruption:
    """A thread that revokes the communicator of an operation while MPI knows of a dead member.

    The thread revokes only if the same operation is still under way a second later, because the
    operation itself notices most deaths. Local; the thread starts with the first operation.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: Any = None
        self._number = 0  # of the operation
        self._vain = 0  # number of an operation whose communicator had a dead member
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, handle: Any) -> Iterator[None]:
        """Context of an operation on *handle*, an ``mpi4py.MPI.Comm`` with ULFM.

        The thread calls MPI only inside this context, while the main thread may as well: both need
        MPI_THREAD_MULTIPLE.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ft-deaths", daemon=True)
            self._thread.start()
        with self._lock:
            self._handle = handle
            self._number += 1
        try:
            yield
        finally:
            with self._lock:
                self._handle = None

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_EVERY_S):
            with self._lock:
                if self._handle is not None:
                    self._look(self._handle)

    def _look(self, handle: Any) -> None:
        if handle.Is_revoked():
            return
        failed = handle.Get_failed()
        count = failed.Get_size()
        failed.Free()
        if not count:
            return
        if self._vain == self._number:
            handle.Revoke()
        self._vain = self._number
