"""The launcher as arbiter: it decides which part of a partitioned run goes on.

A part that is not larger than the rest asks here, see :mod:`ft.quorum`. The launcher is one
process, so it can give leave to one part only. A rank counts as dead if its own host answers that
it has ended, and only then.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from ft.quorum import Ruling, named
from matex.config.launcher_address import LauncherAddress
from matex.launcher.accepting import Acceptor
from matex.launcher.host_names import HostNames, IdSpace, identity_in, whether_ended
from matex.launcher.hosts import Hosts
from matex.launcher.starting_ranks import ConnectedRanks
from matex.records.launcher_protocol.starting_connection import SEEN, STARTING

__all__ = ["Arbiter", "Lost", "Question", "Rulings"]

_MOST_BYTES = 1 << 20
_ASKED_S = 20.0  # for a host to answer: the ranks wait, and are given up after 40 s
_PATIENCE_S = 5.0  # with a requester that does not finish


class Lost(NamedTuple):
    """A rank that is not present, with its process: where this has ended, the rank is dead."""

    rank: int
    host: str
    boot: str
    space: int
    pid: int

    @property
    def ids(self) -> IdSpace:
        """Host and namespace in which its process id means something."""
        return self.host, self.boot, self.space


@dataclass(frozen=True, kw_only=True)
class Question:
    """The state of a part, as it reports it: the original ranks of its last common world.

    ``asks`` is whether it goes on only with leave; a larger part only says that it does.
    """

    asks: bool
    present: frozenset[int]
    absent: frozenset[int] = frozenset()
    """All others of that world, whatever is known of them."""
    unknown: tuple[Lost, ...] = ()
    """Those of them that may be alive."""

    @staticmethod
    def read(content: Mapping[str, Any]) -> Question:
        """The question in the JSON that :func:`matex.run.launcher_client.ask` sends.

        Raises:
            KeyError, TypeError, ValueError: *content* is no question.
        """
        unknown = [
            Lost(int(rank), str(host), str(boot), int(space), int(pid))
            for rank, host, boot, space, pid in map(_list, _list(content["unknown"]))
        ]
        return Question(
            asks=bool(content["asks"]),
            present=frozenset(map(int, _list(content["present"]))),
            absent=frozenset(map(int, _list(content["absent"]))),
            unknown=tuple(unknown),
        )


class Rulings:
    """The part that was given leave, or that went on, in one start of the ranks. Pure.

    Ranks that joined later are taken for members of that part when it first tells of them, as
    present or as lost: a single message may be. So whoever another part has told of is none.

    Args:
        started: number of ranks that were started; later ones have higher numbers.
    """

    def __init__(self, started: int) -> None:
        self.chosen: frozenset[int] | None = None
        self._started = started
        self._heard_of: set[int] = set()

    def rule(self, question: Question, ended: Collection[int]) -> str:
        """Reason for which the part may not go on; "" if it may.

        Args:
            ended: unknown ranks of the question that are proved dead.
        """
        present, named_now = question.present, question.present | question.absent
        joined = {n for n in named_now if n >= self._started and n not in self._heard_of}
        self._heard_of |= named_now
        if self.chosen is not None:
            if not present - joined <= self.chosen:
                return f"the run goes on with {named(self.chosen)}"
            self.chosen |= joined
        left = [lost.rank for lost in question.unknown if lost.rank not in ended]
        if question.asks and len(present) < len(left):
            return f"{named(left)} are more, and are alive or on hosts that do not answer"
        self.chosen = present
        return ""


class Arbiter:
    """Answers questions on a TCP port, until :meth:`close`; ``was_asked`` tells of any.

    Ranks that start connect to it, too; ``starting`` tells of these.

    Args:
        hosts: hosts of the run, and the means to run commands on them.
        names: names by which the launcher calls the hosts of ranks.
        started: number of ranks that it has started.
        is_over: function that returns whether the run has ended.
    """

    def __init__(
        self, hosts: Hosts, names: HostNames, is_over: Callable[[], bool], *, started: int
    ) -> None:
        self._hosts = hosts
        self._names = names
        self._is_over = is_over
        self.starting = ConnectedRanks()
        self._token = secrets.token_hex(16)
        self._rulings = Rulings(started)
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
        ended = self._ended(question.unknown) if question.asks else set()
        with self._lock:
            if self._is_over():
                return Ruling("the run has come to its end without them")
            return Ruling(self._rulings.rule(question, ended), tuple(sorted(ended)))

    def _ended(self, unknown: Collection[Lost]) -> set[int]:
        """Ranks of *unknown* whose processes have ended, as their own hosts report.

        All hosts are asked at the same time, because ranks wait for one that does not answer. A
        host says who it is: an answer of another one, or of the same one after it was started
        again, tells nothing.
        """
        by_ids: dict[IdSpace, list[int]] = {}
        for lost in unknown:
            by_ids.setdefault(lost.ids, []).append(lost.pid)
        if not by_ids:
            return set()
        names = {name for host, boot, _ in by_ids for name in self._names.possible(host, boot)}
        answers = self._hosts.ask(sorted(names), whether_ended(by_ids), within_s=_ASKED_S)
        found = [(name, identity_in(output)) for name, output in answers.items()]
        said = {name: ids for name, ids in found if ids is not None}
        self._names.learn({name: (host, boot) for name, (host, boot, _) in said.items()})
        return {lost.rank for lost in unknown if lost.ids in said.values()}


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
