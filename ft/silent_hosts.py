"""Detection of silent hosts, and shutdown of the connections to them.

A network that is cut looks like a slow one: TCP sends lost data again, each time after twice the
time, so after a cut of 8 s some connections stay silent for 13 s, and with them the heartbeats of
Open MPI's failure detector. If the detector gave a rank up then, the network would be whole again,
and the news would reach ranks that had never been cut off. So its time-out is longer than any such
silence, and hosts are given up here: when a connection has been silent for 10 s *and* a new attempt
to connect, which no backlog delays, is not answered either. Then all connections to that host are
shut, while the network is still cut, and MPI counts all ranks of the host as lost at once.
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

# Fields of linux/tcp.h's struct tcp_info: number of retransmissions of unacknowledged data, number
# of unanswered keep-alive probes, and milliseconds since the last data and the last acknowledgment.
_TCP_INFO = struct.Struct("=2xBB48xII")
# The kernel answers for a stopped process, too. A host that is probed each second and answers was
# heard in the last 1.5 s.
_UNANSWERED, _SILENT_S, _HEARD_S = 4, 10.0, 1.5
_EVERY_S, _PROBING_S = 1.0, 0.05
_SETTLING_S = 0.002  # a living host answers in less
# Time in which a silence is detected, from its beginning, and a margin.
_SETTLED_S = _SILENT_S + 5.0

_TCP_RTO_MAX_MS = 44  # linux/tcp.h, since Linux 6.15
# Idle connections are probed each second, and lost data is sent again each second if the kernel has
# that option.
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 127),  # the most: the kernel must not end it
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),  # probed at once if nothing has come for so long
    (socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, 1000),
)

# No service uses this port, and the kernel never assigns it: it is outside the ephemeral range.
_PORT = 65535
_ANSWER_S = 1.0


class _Silence(NamedTuple):
    """The longest silence among the connections to one host.

    Attributes:
        seconds: time since anything was received.
        unanswered: number of retransmissions or keep-alive probes since.
    """

    seconds: float
    unanswered: int

    @property
    def is_over(self) -> bool:
        """Whether something was received just now. Pure."""
        return self.seconds < _HEARD_S

    @property
    def is_long(self) -> bool:
        """Whether the silence is long enough to give up a host that cannot be reached. Pure."""
        return self.seconds >= _SILENT_S and self.unanswered >= _UNANSWERED


class _HostProbe:
    """An attempt to connect to a host, to test whether it answers; a refusal is an answer. Local.

    Raises:
        OSError: this process cannot open another socket.
    """

    def __init__(self, address: str) -> None:
        self._limit = time.monotonic() + _ANSWER_S
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._status = self._socket.connect_ex((address, _PORT))

    @property
    def is_answered(self) -> bool | None:
        """Whether the host has answered; None while it may still answer."""
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
        """Close the socket, and wait for no answer any more."""
        self._socket.close()


class _HostProbes:
    """The probes of doubtful hosts. Local."""

    def __init__(self) -> None:
        self._by_address: dict[str, _HostProbe] = {}

    def make(self, doubtful: Mapping[str, _Silence]) -> set[str]:
        """Probe hosts; return addresses that answered, and shut hosts without answer for too long.

        Args:
            doubtful: silence of each doubtful host; probes of other hosts end.
        """
        probes = self._by_address
        for address in probes.keys() - doubtful:
            probes.pop(address).end()
        for address in doubtful.keys() - probes.keys():
            with contextlib.suppress(OSError):  # then nothing is known of the host
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
        """Whether a probe still awaits its answer. Pure."""
        return bool(self._by_address)


class SilentHosts:
    """Finds silent hosts, and shuts this process's connections to them.

    A host is given up if a connection to it has been silent for 10 s, although data or probes were
    sent, and if it does not answer a new attempt to connect within a second.

    Args:
        addresses: function that returns the current IPv4 addresses of the other hosts.
    """

    def __init__(self, addresses: Callable[[], Collection[str]]) -> None:
        self._addresses = addresses
        self._thread = threading.Thread(target=self._watch, name="ft-silence", daemon=True)

    def start(self) -> None:
        """Check each second from now on, in a thread; local, later calls have no effect."""
        if not self._thread.is_alive():
            self._thread.start()

    def disconnect_silent(self) -> None:
        """Check until no host is in doubt; local, before a repair.

        It takes no time if all hosts answer, and up to 15 s if a host does not.
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
    """Longest silence of each of *addresses*; sets keep-alive options on their connections."""
    found: dict[str, _Silence] = {}
    if not addresses:
        return found
    for connection in sockets.connections():
        with connection, contextlib.suppress(OSError):  # not connected, or no longer
            peer = sockets.plain(connection.getpeername()[0])
            if peer not in addresses:
                continue
            for option in _OPTIONS:
                with contextlib.suppress(OSError):  # the kernel does not know this option
                    connection.setsockopt(*option)
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            resent, asked, data_ms, answer_ms = _TCP_INFO.unpack(info)
            silence = _Silence(min(data_ms, answer_ms) / 1000, max(resent, asked))
            found[peer] = max(found.get(peer, silence), silence)
    return found
