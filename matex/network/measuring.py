"""Latency and bandwidth between two ranks, by point-to-point messages.

Both ranks of a pair make the same calls; the one that *leads* gets the figures. The bandwidth is
that of pieces of 1 MiB, all under way at once, as a median of many tries: directions that usually
take turns sometimes do not, and others are slow for a try when the host is busy. The time is from
the message that the other rank is ready until the message that it has received everything, less the
round trip of these two messages.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from matex.network.figures import PairFigures

__all__ = ["Meter"]

_PIECE_BYTES = 1 << 20
_MOST_PIECES = 64
_AIM_S = 0.25  # of one try
_TRIES = 7
_FEWEST_PIECES = 3
_TRIAL = 5
_MOST_TRIPS = 500


class Meter:
    """Measurements between ranks of a communicator.

    Args:
        mpi: module ``mpi4py.MPI``.
        comm: communicator with one rank per host.
        progress: function called after each exchange of messages.
    """

    def __init__(self, mpi: Any, comm: Any, progress: Callable[[], None]) -> None:
        self._mpi, self._comm, self._progress = mpi, comm, progress
        self._token = np.zeros(8, np.uint8)
        self._out = np.ones((_MOST_PIECES, _PIECE_BYTES), np.uint8)
        self._in = np.ones_like(self._out)

    def measure(self, names: tuple[str, str], peer: int, *, leads: bool) -> PairFigures | None:
        """Figures of a pair, called by both of its ranks; None on the rank that does not lead.

        Args:
            names: names of the host that leads and of the other.
            peer: rank of the other process.
            leads: whether this rank leads.
        """
        trial_s = self._trip_s(peer, leads, _TRIAL)
        trips = self._agreed(peer, leads, min(max(int(_AIM_S / trial_s), _TRIAL), _MOST_TRIPS))
        trip_s = self._trip_s(peer, leads, trips)
        there = self._bandwidth(peer, leads, trip_s, sends=leads, receives=not leads)
        back = self._bandwidth(peer, leads, trip_s, sends=not leads, receives=leads)
        both = self._bandwidth(peer, leads, trip_s, sends=True, receives=True)
        if not leads:
            return None
        return PairFigures(
            first=names[0], second=names[1],
            latency_s=trip_s / 2, there=there, back=back, both=both,
        )  # fmt: skip

    def _trip_s(self, peer: int, leads: bool, trips: int) -> float:
        """The median time of a round trip, the same number on both sides."""
        times = []
        for _ in range(trips):
            began = time.perf_counter()
            if leads:
                self._comm.Send(self._token, peer)
                self._comm.Recv(self._token, peer)
            else:
                self._comm.Recv(self._token, peer)
                self._comm.Send(self._token, peer)
            times.append(time.perf_counter() - began)
        self._progress()
        return float(self._agreed(peer, leads, statistics.median(times)))

    def _agreed(self, peer: int, leads: bool, value: Any) -> Any:
        """The leading rank's number."""
        number = np.array([value])
        if leads:
            self._comm.Send(number, peer)
        else:
            self._comm.Recv(number, peer)
        return number[0].item()

    def _bandwidth(
        self, peer: int, leads: bool, trip_s: float, *, sends: bool, receives: bool
    ) -> float:
        """Bytes a second of a direction, the median of some tries, on both sides.

        The sender has the clock; where both send, the leading rank.
        """
        clock = leads if receives == sends else sends

        def once(pieces: int) -> float:
            spent_s = self._exchange_s(peer, pieces, clock=clock, sends=sends, receives=receives)
            self._progress()
            return max(spent_s - trip_s, 1e-9)

        trial_s = once(1)
        wanted = max(round(_AIM_S / trial_s), _FEWEST_PIECES)
        pieces = self._agreed(peer, clock, min(wanted, _MOST_PIECES))
        spent_s = statistics.median(once(pieces) for _ in range(_TRIES))
        return float(self._agreed(peer, clock, pieces * _PIECE_BYTES / spent_s))

    def _exchange_s(
        self, peer: int, pieces: int, *, clock: bool, sends: bool, receives: bool
    ) -> float:
        """Time from the start of sending until the other rank has confirmed, seconds.

        Receives stand before the other side begins to send.
        """
        comm = self._comm
        requests = []
        if receives:
            requests += [comm.Irecv(self._in[n], peer, tag=1) for n in range(pieces)]
        if clock:
            comm.Recv(self._token, peer)
        else:
            comm.Send(self._token, peer)
        began = time.perf_counter()
        if sends:
            requests += [comm.Isend(self._out[n], peer, tag=1) for n in range(pieces)]
        self._mpi.Request.Waitall(requests)
        if clock:
            comm.Recv(self._token, peer)
        else:
            comm.Send(self._token, peer)
        return time.perf_counter() - began
