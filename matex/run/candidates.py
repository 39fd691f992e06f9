"""Processes that can take the places of dead ranks: new ones, and cold spares."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import ft
from matex.fork_server import client

__all__ = ["Candidates", "ColdCandidates", "NewProcesses", "PendingStart", "best_of"]


class PendingStart(NamedTuple):
    """A process that can become a newcomer.

    Args:
        host: name of its host.
        start: function that starts or calls the process, and returns it.
    """

    host: str
    start: Callable[[], ft.PendingProcess]


class Candidates(Protocol):
    """A source of newcomers. Local; only the leader's is used."""

    nobody: str
    """Reason for which there is no candidate, for messages."""

    def next(self, coming: Collection[str], *, wanted: int) -> PendingStart | None:
        """Next process that can come for a missing rank; None if there is none.

        Args:
            coming: hosts of the newcomers on their way.
            wanted: target number of ranks.
        """
        ...

    def count(self) -> int:
        """Number of processes that can still come; ``sys.maxsize`` without a limit."""
        ...

    def close_host(self, host: str) -> None:
        """Use no process of *host* any more."""
        ...

    def announce(self) -> None:
        """Tell the waiting cold spares that this process, a newcomer, has been admitted."""
        ...

    def dismiss(self) -> None:
        """Let the waiting cold spares end, because the run is over."""
        ...


class NewProcesses:
    """Processes that are started on demand, on a single host.

    Args:
        communicator: ranks of the run.
    """

    nobody = "on several hosts only ranks that matex run has started can be replaced"

    def __init__(self, communicator: ft.Communicator) -> None:
        self._communicator = communicator

    def next(self, coming: Collection[str], *, wanted: int) -> PendingStart | None:
        if self._communicator.world.spread:
            return None
        command = client.command(sys.orig_argv[1:])
        host = self._communicator.world.me.host
        return PendingStart(host, partial(ft.Spawn, command))

    def count(self) -> int:
        return 0 if self._communicator.world.spread else sys.maxsize

    def close_host(self, host: str) -> None:
        """Do nothing: all ranks are on this host."""

    def announce(self) -> None:
        """Do nothing: no process waits."""

    def dismiss(self) -> None:
        """Do nothing: no process waits."""


class ColdCandidates:
    """Cold spares, each for a rank of its own host.

    Args:
        communicator: ranks of the run.
        spares: cold spares of the run.
    """

    nobody = "no cold spare is left on its host; --respawn N lets N wait, some on each of --hosts"

    def __init__(self, communicator: ft.Communicator, spares: ft.ColdSpares) -> None:
        self._communicator = communicator
        self._spares = spares
        self._closed: set[str] = set()

    def next(self, coming: Collection[str], *, wanted: int) -> PendingStart | None:
        communicator = self._communicator
        hosts = communicator.hosts
        there = Counter(member.host for member in communicator.world.everyone)
        there.update(coming)
        at_start = Counter(hosts[rank] for rank in hosts if rank < communicator.initial_size)
        free = self._spares.free(known=communicator.world.everyone)
        more = wanted - communicator.initial_size
        found = best_of(free, there=there, at_start=at_start, closed=self._closed, more=more)
        if found is None:
            return None
        return PendingStart(found.host, partial(self._spares.call, found.rank))

    def count(self) -> int:
        free = self._spares.free(known=self._communicator.world.everyone)
        return sum(member.host not in self._closed for member in free)

    def close_host(self, host: str) -> None:
        self._closed.add(host)

    def announce(self) -> None:
        self._spares.announce()

    def dismiss(self) -> None:
        self._spares.dismiss(known=self._communicator.world.everyone)


def best_of(
    free: Sequence[ft.Member],
    *,
    there: Mapping[str, int],
    at_start: Mapping[str, int],
    closed: Container[str] = (),
    more: int = 0,
) -> ft.Member | None:
    """Waiting process on the host that lacks most ranks; None if there is none. Pure.

    Args:
        free: waiting processes.
        there: number of ranks of each host, including newcomers on their way.
        at_start: number of ranks of each host at the start, for which it has cores.
        closed: hosts on which no process may start; none by default.
        more: number of ranks wanted in addition to those of the start, on any host; 0 by default.
    """
    missing = {host: ranks - there.get(host, 0) for host, ranks in at_start.items()}
    beyond = sum(-ranks for ranks in missing.values() if ranks < 0)
    least = 1 if beyond >= more else -more
    fitting = [
        member for member in free
        if member.host not in closed and missing.get(member.host, least - 1) >= least
    ]  # fmt: skip
    return max(fitting, key=lambda member: missing[member.host], default=None)
