"""The ranks of one start, on their way to meet in MPI_Init, as the launcher sees them."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from matex.launcher.rank_processes import is_gone
from matex.records.launcher_protocol.starting_connection import MET
from matex.records.launcher_protocol.starting_file import are_starting

__all__ = ["ConnectedRanks", "RanksHere", "StartingRanks"]

_SPARE_FILES = 256
# A host that is lost says nothing: its connections end after 10 + 4 * 5 s without an answer.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))


class StartingRanks(Protocol):
    """The ranks of one start, as far as they can be seen."""

    @property
    def unseen_s(self) -> float:
        """Seconds after the last rank was seen from which one that was not is missing."""
        ...

    def seen(self) -> Mapping[int, str]:
        """The process of each rank that was seen until now, in words."""
        ...

    def gone(self) -> Collection[int]:
        """Ranks of those seen that have ended; looked at before :meth:`have_met`."""
        ...

    def have_met(self) -> bool:
        """Whether the ranks have met; also where that cannot be known."""
        ...


class RanksHere:
    """Ranks on this host, by their processes and a file in the report directory.

    Args:
        report: the directory in which ``announce`` of
            :mod:`matex.records.launcher_protocol.starting_file` said that they start; where it did
            not, they count as ranks that have met.
        find: function that returns the process of each rank on this host that it sees.
    """

    unseen_s = 30.0  # mpiexec starts the ranks of a host one right after the other

    def __init__(self, report: Path, ranks: int, find: Callable[[], Mapping[int, int]]) -> None:
        self._report = report
        self._ranks = ranks
        self._find = find
        self._pids: dict[int, int] = {}

    def seen(self) -> Mapping[int, str]:
        if len(self._pids) < self._ranks:
            self._pids = {**self._find(), **self._pids}
        return {rank: f"process {pid}" for rank, pid in self._pids.items()}

    def gone(self) -> Collection[int]:
        return [rank for rank, pid in self._pids.items() if is_gone(pid)]

    def have_met(self) -> bool:
        return not are_starting(self._report)


class ConnectedRanks:
    """Ranks on any hosts, by connections that they keep to the launcher until they have met.

    The kernel of a host closes the connections of a process that ends. A rank that is never seen
    died before it had imported matex; or the launcher cannot be reached from its host, and then all
    the same it meets the others.
    """

    unseen_s = 120.0  # files may be slow to read on another host

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._seen: dict[int, str] = {}
        self._gone: set[int] = set()
        self._met = False

    def add(self, connection: socket.socket, rank: int, process: str) -> None:
        """Watch *connection*, which becomes this object's, of *rank*; from any thread."""
        with self._lock:
            _make_room(len(self._seen))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.setblocking(False)
            self._seen[rank] = process
            self._selector.register(connection, selectors.EVENT_READ, rank)

    def seen(self) -> Mapping[int, str]:
        with self._lock:
            return dict(self._seen)

    def gone(self) -> Collection[int]:
        with self._lock:
            for key, _ in self._selector.select(0):
                self._hear(key)
            return set(self._gone)

    def have_met(self) -> bool:
        return self._met

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for key in list(self._selector.get_map().values()):
                self._leave(key)
            self._selector.close()

    def _hear(self, key: selectors.SelectorKey) -> None:
        connection: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            said = connection.recv(len(MET))
        except OSError:  # its host does not answer any more
            said = b""
        if said:
            self._met = True
        else:
            self._gone.add(key.data)
        self._leave(key)

    def _leave(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        with contextlib.suppress(OSError):
            key.fileobj.close()  # type: ignore[union-attr]


def _make_room(connections: int) -> None:
    """Let this process have as many open files as *connections* want, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in (hard, resource.RLIM_INFINITY) and connections + _SPARE_FILES > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
