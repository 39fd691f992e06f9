"""The launcher as arbiter: it decides which part of a partitioned run goes on.

A part that is not larger than the rest asks here, see :mod:`ft.quorum`. The launcher is one
process, so it can give leave to one part only. A rank counts as dead if it has ended on a host that
answers, and only then.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psutil

from ft.quorum import Ruling, named
from matex.config.launcher_address import LauncherAddress
from matex.launcher.accepting import Acceptor
from matex.launcher.hosts import Hosts
from matex.launcher.starting_ranks import ConnectedRanks
from matex.records.starting_connection import SEEN, STARTING

__all__ = ["Arbiter", "HostNames", "Question", "Rulings", "probe"]

_MOST_BYTES = 1 << 20
_ASKED_S = 20.0  # for a host to answer: the ranks wait, and are given up after 40 s
_PATIENCE_S = 5.0  # with a requester that does not finish


@dataclass(frozen=True, kw_only=True)
class Question:
    """The state of a part, as it reports it: its original ranks, and processes of unknown ranks.

    ``asks`` is whether it goes on only with leave; a larger part only says that it does.
    """

    asks: bool
    here: tuple[tuple[int, str], ...]
    """Rank and host of those present."""
    unknown: tuple[tuple[int, str, int, int], ...] = ()
    """Rank, host, process id and the space of that."""
    admitted: tuple[int, ...] = ()
    """Present ranks that were in no world before."""

    @staticmethod
    def read(content: Mapping[str, Any]) -> Question:
        """The question in the JSON that :func:`matex.run.launcher_client.ask` sends.

        Raises:
            KeyError, TypeError, ValueError: *content* is no question.
        """
        here = [(int(rank), str(host)) for rank, host in map(_list, _list(content["present"]))]
        admitted = [int(rank) for rank in _list(content["admitted"])]
        unknown = [
            (int(rank), str(host), int(pid), int(space))
            for rank, host, pid, space in map(_list, _list(content["unknown"]))
        ]
        return Question(
            asks=bool(content["asks"]),
            here=tuple(here),
            unknown=tuple(unknown),
            admitted=tuple(admitted),
        )

    @property
    def present(self) -> frozenset[int]:
        """Ranks that are present."""
        return frozenset(rank for rank, _ in self.here)


@dataclass
class Rulings:
    """The part that was given leave, or that went on, for each start of the ranks. Pure."""

    chosen: frozenset[int] | None = field(default=None)

    def rule(self, question: Question, ended: Sequence[int]) -> str:
        """Reason for which the part may not go on; "" if it may.

        Args:
            ended: unknown ranks of the question that are proved dead.
        """
        present = question.present
        if self.chosen is not None and not present.difference(question.admitted) <= self.chosen:
            return f"the run goes on with {named(self.chosen)}"
        left = [rank for rank, *_ in question.unknown if rank not in ended]
        if question.asks and len(present) < len(left):
            return f"{named(left)} are more, and are alive or on hosts that do not answer"
        self.chosen = present
        return ""


class Arbiter:
    """Answers questions on a TCP port, until :meth:`close`; ``was_asked`` tells of any.

    Ranks that start connect to it, too; ``starting`` tells of these.

    Args:
        hosts: hosts of the run, and the means to run commands on them.
        names: the names by which the launcher calls the hosts of ranks.
        is_over: function that returns whether the run has ended.
    """

    def __init__(self, hosts: Hosts, names: HostNames, is_over: Callable[[], bool]) -> None:
        self._hosts = hosts
        self._names = names
        self._is_over = is_over
        self.starting = ConnectedRanks()
        self._token = secrets.token_hex(16)
        self._rulings = Rulings()
        self.was_asked = False
        self._lock = threading.Lock()
        self._socket = socket.create_server(("", 0))
        self._acceptor = Acceptor(self._socket, self._answer, name="arbiter")

    @property
    def setting(self) -> str:
        """The address to ask, for :func:`matex.run.launcher_client.ask`."""
        port = self._socket.getsockname()[1]
        return LauncherAddress(tuple(_addresses()), port, self._token).text

    def close(self) -> None:
        """Answer no more."""
        self._acceptor.close()
        self.starting.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_PATIENCE_S)
            with connection.makefile("rwb") as stream:
                try:
                    content = json.loads(stream.readline(_MOST_BYTES))
                    if not secrets.compare_digest(str(content["token"]), self._token):
                        return
                    if STARTING in content:
                        rank, process = _list(content[STARTING])
                        self.starting.add(connection.dup(), int(rank), str(process))
                        stream.write(SEEN)
                        return
                    question = Question.read(content)
                except (KeyError, TypeError, ValueError):
                    return
                stream.write(json.dumps(self._rule(question)._asdict()).encode() + b"\n")

    def _rule(self, question: Question) -> Ruling:
        self.was_asked = True
        with self._lock:
            for rank, host in question.here:
                self._names.of(rank, host)
        ended = self._ended(question) if question.asks else []
        with self._lock:
            if self._is_over():
                return Ruling("the run has come to its end without them")
            return Ruling(self._rulings.rule(question, ended), tuple(ended))

    def _ended(self, question: Question) -> list[int]:
        """Unknown ranks whose processes have ended, as their hosts report.

        All hosts are asked at the same time, because ranks wait for one that does not answer.
        """
        groups = list(self._by_host(question).items())

        def have_ended(group: tuple[tuple[str, int], list[int]]) -> bool:
            (host, space), ranks = group
            pids = [pid for rank, _, pid, _ in question.unknown if rank in ranks]
            return bool(self._hosts.run([host], probe(space, pids), within_s=_ASKED_S))

        with ThreadPoolExecutor(max(1, len(groups))) as pool:
            answers = list(pool.map(have_ended, groups))
        pairs = zip(groups, answers, strict=True)
        return [rank for (_, ranks), ended in pairs if ended for rank in ranks]

    def _by_host(self, question: Question) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        with self._lock:
            for rank, host, _, space in question.unknown:
                found.setdefault((self._names.of(rank, host), space), []).append(rank)
        return found


def probe(space: int, pids: Sequence[int]) -> list[str]:
    """Command that succeeds if none of *pids* is alive, or if all end soon. Pure."""
    script = (
        f'[ "$(readlink /proc/self/ns/pid)" = "pid:[{space}]" ] || exit 1; '
        f"for try in 1 2 3 4 5 6; do alive=; for pid in {' '.join(map(str, pids))}; do "
        'kill -0 "$pid" 2>/dev/null && alive=1; done; '
        '[ -z "$alive" ] && exit 0; sleep 0.5; done; exit 1'
    )
    return ["sh", "-c", script]


class HostNames:
    """The launcher's names for the hosts of ranks, which may call themselves differently.

    The ranks that it starts fill the hosts in order. Newcomers are on a host of one of them.

    Args:
        hosts: hosts that were given, with their slots; none with a batch system, which calls
            them as they call themselves.
    """

    def __init__(self, hosts: Mapping[str, int]) -> None:
        self._names = [name for name, slots in hosts.items() for _ in range(slots)]
        self._known: dict[str, str] = {}

    def of(self, rank: int, host: str) -> str:
        """Launcher's name of the host of *rank*, which calls itself *host*; it is remembered."""
        if rank < len(self._names):
            return self._known.setdefault(host, self._names[rank])
        return self._known.get(host, host)


def _addresses() -> list[str]:
    """Addresses of this host as seen by others; addresses that only this host has are last."""
    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET
    ]
    return sorted(found, key=lambda address: address.startswith("127."))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list was wanted. Received: {value!r}")
    return value
