"""A switch that joins TAP devices in a thread, with slow links, and links that are cut."""

from __future__ import annotations

import heapq
import os
import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MTU", "Link", "Switch"]

#: Bytes of a packet, as jumbo frames have: fewer of them to carry.
MTU = 9000
_FRAME = MTU + 18
_BROADCAST = 0x01  # of the first byte of an address: to more than one


@dataclass(frozen=True, kw_only=True)
class Link:
    """The link of every host to all others.

    Args:
        rate_bit_s: bits a second that leave a host.
        delay_s: from the end of sending to arrival.
        queue_s: a frame that would wait longer than this for its turn is dropped, as a full
            router does, and TCP slows down.
    """

    rate_bit_s: float
    delay_s: float
    queue_s: float = 0.05

    def departure(self, now: float, free: float, size: int) -> float | None:
        """The time at which the last bit of *size* bytes has left; None for a dropped frame. Pure.

        Args:
            free: time at which the link will have sent all earlier frames.
        """
        begin = max(now, free)
        if begin - now > self.queue_s:
            return None
        return begin + 8 * size / self.rate_bit_s


class Switch:
    """Carries frames between TAP devices in a thread; port 0 is the head's, and quick.

    ``sent[i]`` are the bytes of the frames that left port i for another host, and ``dropped``
    counts frames. ``cut`` are pairs of ports, from and to, between which nothing is carried.
    """

    def __init__(self, taps: Sequence[int], macs: Sequence[bytes], link: Link) -> None:
        self._taps = list(taps)
        self._port_of = {mac: port for port, mac in enumerate(macs)}
        self._link = link
        self._free = [0.0] * len(taps)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._wake, self._stop = os.pipe()
        self.sent = [0] * len(taps)
        self.dropped = 0
        self.cut: frozenset[tuple[int, int]] = frozenset()
        self._thread = threading.Thread(target=self._carry, name="switch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Carry no more."""
        os.write(self._stop, b"x")
        self._thread.join()
        for file in (*self._taps, self._wake, self._stop):
            os.close(file)

    def _carry(self) -> None:
        ports = {tap: port for port, tap in enumerate(self._taps)}
        while True:
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, port, frame = heapq.heappop(self._waiting)
                self._deliver(port, frame)
            left = max(0.0, self._waiting[0][0] - now) if self._waiting else None
            ready, _, _ = select.select([*self._taps, self._wake], [], [], left)
            if self._wake in ready:
                return
            for tap in ready:
                self._take(ports[tap], os.read(tap, _FRAME))

    def _take(self, port: int, frame: bytes) -> None:
        to = self._port_of.get(frame[:6])
        if to is not None:
            self._send(port, to, frame)
        elif frame[0] & _BROADCAST:
            for other in range(len(self._taps)):
                if other != port:
                    self._send(port, other, frame)

    def _send(self, port: int, to: int, frame: bytes) -> None:
        if (port, to) in self.cut:
            self.dropped += 1
            return
        if 0 in (port, to):
            self._deliver(to, frame)
            return
        now = time.monotonic()
        departure = self._link.departure(now, self._free[port], len(frame))
        if departure is None:
            self.dropped += 1
            return
        self._free[port] = departure
        self.sent[port] += len(frame)
        self._number += 1  # of two that arrive together the first goes first
        arrival = departure + self._link.delay_s
        heapq.heappush(self._waiting, (arrival, self._number, to, frame))

    def _deliver(self, port: int, frame: bytes) -> None:
        try:
            os.write(self._taps[port], frame)
        except OSError:  # its queue is full, or the device goes down
            self.dropped += 1
