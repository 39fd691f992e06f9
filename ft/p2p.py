"""Vectors exchanged with single peers, while this rank computes."""

from __future__ import annotations

import numpy as np

from ft import mpi
from ft.communicator import Communicator
from ft.errors import UsageError

__all__ = ["Swap"]

# The least that MPI promises for a tag is 32767.
_TAGS = 1 << 14


class Swap:
    """One vector on its way to a peer, and one from a peer (not always the same).

    Not one of the communicator's numbered operations: it waits for the two peers
    alone, and is not replayed. A death never raises here: what did not come whole
    is None, and the next numbered operation finds the death.

    Making it is local. Every peer must make its part, with the same *number*, before
    the members' next numbered operation; each ends it by :meth:`wait`, also after
    further operations. A repair in between ends it without a result.

    Args:
        send: contiguous; not to be written before :meth:`wait` has returned.
        to, source: original ranks of living members, other than this one.
        number: tells one swap from the next.
    """

    def __init__(
        self, communicator: Communicator, send: np.ndarray, *, to: int, source: int, number: int
    ) -> None:
        ranks = communicator.world.ranks
        if not {to, source} <= set(ranks) - {communicator.world.rank}:
            raise UsageError(
                f"a swap is with other living members, of {ranks}. Received: {to} and {source}"
            )
        self._mpi = mpi.load()
        self._communicator = communicator
        self._send = send
        self._got = np.empty_like(send)
        self._requests = []
        comm, tag = communicator.handle, number % _TAGS
        try:
            self._requests.append(comm.Irecv(self._got, source=ranks.index(source), tag=tag))
            self._requests.append(comm.Isend(self._send, dest=ranks.index(to), tag=tag))
        except self._mpi.Exception:  # somebody died already
            self._whole = False
        else:
            self._whole = True

    def wait(self) -> np.ndarray | None:
        """What the peer sent, or None where it or this communicator is gone."""
        with self._communicator.waiting():
            for request in self._requests:
                try:
                    request.Wait()
                except self._mpi.Exception:
                    self._whole = False
        if not self._whole:
            # MPI may still write into, or read, what a failed request named.
            _failed.append(self)
        return self._got if self._whole else None


_failed: list[Swap] = []
