"""Hosts that answer nothing any more, and the end of the connections to them.

A network that is cut looks like one that is slow: TCP sends again what was lost, each time after
twice as long, so after a cut of 8 s some connections stay silent for 13 s, and the heartbeats of
Open MPI's detector with them. If that one gave a rank up then, the network would be whole, and the
news would reach ranks that had never been cut off. So its time-out is longer than any such silence,
and hosts are given up here: where a connection has been silent for 10 s *and* an attempt to connect
anew, which no backlog delays, is not answered either. Then all connections to that host are shut,
while the network is still cut, and MPI counts all its ranks as lost at once.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ft import sockets

__all__ = ["SilentHosts"]

# Of linux/tcp.h's struct tcp_info: how often what waits for an acknowledgment was sent again, how
# often one who has nothing to say was asked for a sign, and for how many milliseconds no data and
# no acknowledgment have come.
_TCP_INFO = struct.Struct("=2xBB48xII")
# The kernel answers for a process that stands still, too. Whoever is asked each second and answers
# was heard in the last 1.5 s.
_UNANSWERED, _SILENT_S, _HEARD_S = 4, 10.0, 1.5
_EVERY_S, _PROBING_S = 1.0, 0.05
_SETTLING_S = 0.002  # an answer comes in less where the host lives
# In which a silence is found out about, from its beginning, and some time.
_SETTLED_S = _SILENT_S + 5.0

_TCP_RTO_MAX_MS = 44  # linux/tcp.h, since Linux 6.15
# Whoever has nothing to say is asked for a sign each second, and what is lost is sent again each
# second where the kernel can be told so.
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 127),  # the most: to end it is not the kernel's
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),  # at once where nothing has come for so long
    (socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, 1000),
)

# No service has it, and the kernel answers for nobody: outside the range from which it gives ports.
_PORT = 65535
_ANSWER_S = 1.0


class _Silence(NamedTuple):
    """The longest silence among the connections to one host.

    Attributes:
        seconds: time for which nothing has come.
        unanswered: number of times that it was sent the same, or asked for a sign, since.
    """

    seconds: float
    unanswered: int

    @property
    def is_over(self) -> bool:
        """Whether something came just now. Pure."""
        return self.seconds < _HEARD_S

    @property
    def is_long(self) -> bool:
        """Whether a host that cannot be reached may be given up for it. Pure."""
        return self.seconds >= _SILENT_S and self.unanswered >= _UNANSWERED


class _HostProbe:
    """An attempt to connect to a host, to see whether it answers: a refusal is an answer. Local.

    Raises:
        OSError: this process can have no socket more.
    """

    def __init__(self, address: str) -> None:
        self._limit = time.monotonic() + _ANSWER_S
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._status = self._socket.connect_ex((address, _PORT))

    @property
    def is_answered(self) -> bool | None:
        """Whether the host has answered; None as long as it may yet."""
        if self._status == errno.EINPROGRESS:
            error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error and not self._is_connected():
                return None if time.monotonic() < self._limit else False
            self._status = error
        return self._status in (0, errno.ECONNREFUSED, errno.ECONNRESET)

    def _is_connected(self) -> bool:
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Wait for no answer any more."""
        self._socket.close()


class _HostProbes:
    """The probes of hosts that are in doubt. Local."""

    def __init__(self) -> None:
        self._by_address: dict[str, _HostProbe] = {}

    def make(self, doubtful: Mapping[str, _Silence]) -> set[str]:
        """Addresses that have answered; those that have not, silent for too long, are shut.

        Args:
            doubtful: silence of each host that is in doubt; probes of others end.
        """
        probes = self._by_address
        for address in probes.keys() - doubtful:
            probes.pop(address).end()
        for address in doubtful.keys() - probes.keys():
            with contextlib.suppress(OSError):  # nothing is known then
                probes[address] = _HostProbe(address)
        answers = {address: probe.is_answered for address, probe in probes.items()}
        for address, answer in answers.items():
            if answer is not None:
                probes.pop(address).end()
        unreached = {address for address, answer in answers.items() if answer is False}
        sockets.shut({address for address in unreached if doubtful[address].is_long})
        return {address for address, answer in answers.items() if answer}

    @property
    def are_under_way(self) -> bool:
        """Whether one has no answer yet. Pure."""
        return bool(self._by_address)


class SilentHosts:
    """Finds hosts that answer nothing any more, and shuts this process's connections to them.

    A host is given up where a connection to it has been silent for 10 s, though something was sent
    or asked for, and where it does not answer a new attempt to connect within a second.

    Args:
        addresses: function that gives the IPv4 addresses of the other hosts, now.
    """

    def __init__(self, addresses: Callable[[], Collection[str]]) -> None:
        self._addresses = addresses
        self._thread = threading.Thread(target=self._watch, name="ft-silence", daemon=True)

    def start(self) -> None:
        """Look each second from now on, in a thread; local, and of no effect after the first."""
        if not self._thread.is_alive():
            self._thread.start()

    def settle(self) -> None:
        """Look until no host is in doubt; local, before a repair.

        It takes no time where all hosts answer, and up to 15 s where one does not.
        """
        limit = time.monotonic() + _SETTLED_S
        probes = _HostProbes()
        answered: set[str] = set()
        while time.monotonic() < limit:
            silences = _silences(self._addresses())
            doubtful = {
                address: silence
                for address, silence in silences.items()
                if not silence.is_over and address not in answered
            }
            answered |= probes.make(doubtful)
            if not doubtful:
                break
            time.sleep(_SETTLING_S)
        probes.make({})

    def _watch(self) -> None:
        probes, pause = _HostProbes(), threading.Event()
        while not pause.wait(_PROBING_S if probes.are_under_way else _EVERY_S):
            silences = _silences(self._addresses())
            probes.make({a: silence for a, silence in silences.items() if silence.is_long})


def _silences(addresses: Collection[str]) -> dict[str, _Silence]:
    """The longest silence of each of *addresses*, connections of which are asked for signs."""
    found: dict[str, _Silence] = {}
    if not addresses:
        return found
    for connection in sockets.connections():
        with connection, contextlib.suppress(OSError):  # not connected, or no longer
            peer = sockets.plain(connection.getpeername()[0])
            if peer not in addresses:
                continue
            for option in _OPTIONS:
                with contextlib.suppress(OSError):  # unknown to this kernel
                    connection.setsockopt(*option)
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            resent, asked, data_ms, answer_ms = _TCP_INFO.unpack(info)
            silence = _Silence(min(data_ms, answer_ms) / 1000, max(resent, asked))
            found[peer] = max(found.get(peer, silence), silence)
    return found
