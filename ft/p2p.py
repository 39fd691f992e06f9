"""Vectors on their way to or from single peers, while this rank computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ft import mpi
from ft.communicator import Communicator
from ft.errors import UsageError

__all__ = ["Receiving", "Sending", "Swap"]

# The least that MPI promises for a tag is 32767: two channels of so many.
_TAGS = 1 << 14
_CHANNELS = 2


def _tag(number: int, channel: int) -> int:
    if channel not in range(_CHANNELS):
        raise UsageError(f"a channel is below {_CHANNELS}. Received: {channel}")
    return channel * _TAGS + number % _TAGS


class _Transfer:
    """One vector on one of its ways: see :class:`Swap`, whose rules hold here."""

    def __init__(
        self,
        communicator: Communicator,
        vector: np.ndarray,
        peer: int,
        post: Callable[[Any, int], Any],
    ) -> None:
        ranks = communicator.world.ranks
        if peer not in ranks or peer == communicator.world.rank:
            raise UsageError(
                f"messages are for other living members, of {ranks}. Received: rank {peer}"
            )
        self._mpi = mpi.load()
        self._communicator = communicator
        self._vector = vector
        self._request: Any = None
        try:
            self._request = post(communicator.handle, ranks.index(peer))
        except self._mpi.Exception:  # somebody died already
            self._whole = False
        else:
            self._whole = True

    def _ended(self) -> bool:
        if self._request is None:
            return False
        with self._communicator.hooks.waiting():
            try:
                self._request.Wait()
            except self._mpi.Exception:
                self._whole = False
        if not self._whole:
            # MPI may still write into, or read, what a failed request named.
            _failed.append(self)
        return self._whole


class Sending(_Transfer):
    """A vector on its way to a peer, which makes a :class:`Receiving`; local.

    Args:
        communicator: communicator of both.
        vector: contiguous; not to be written before :meth:`wait` has returned.
        to: original rank of a living member, other than this one.
        number: number that tells one message from the next.
        channel: 0 or 1, 0 by default; numbers of one mean nothing in the other.

    Raises:
        UsageError: *to* is this rank or no living member, or there is no such channel.

    Example:
        >>> comm = ft.Communicator.start()
        >>> peer = comm.world.ranks[-1 - comm.world.place]
        >>> if peer != comm.world.rank:
        ...     sending = ft.Sending(comm, np.full(2, comm.world.rank), to=peer, number=5)
        ...     receiving = ft.Receiving(comm, np.empty(2, int), source=peer, number=5)
        ...     received, sent = receiving.wait(), sending.wait()
        ...     assert sent and received.tolist() == [peer, peer]
        >>> comm.barrier()  # the members' next numbered operation
    """

    def __init__(
        self,
        communicator: Communicator,
        vector: np.ndarray,
        *,
        to: int,
        number: int,
        channel: int = 0,
    ) -> None:
        tag = _tag(number, channel)
        super().__init__(
            communicator, vector, to, lambda comm, place: comm.Isend(vector, dest=place, tag=tag)
        )

    def wait(self) -> bool:
        """Wait until *vector* is free again; local.

        Returns:
            Whether it is on its way or there; False where the peer is gone.
        """
        return self._ended()


class Receiving(_Transfer):
    """A vector on its way from a peer, which makes a :class:`Sending`; local.

    Args:
        communicator: communicator of both.
        into: contiguous, of the shape and dtype that the peer sends; to be read by :meth:`wait`.
        source: original rank of a living member, other than this one.
        number, channel: number and channel that the peer gives its message.

    Raises:
        UsageError: *source* is this rank or no living member, or there is no such channel.

    Example:
        >>> comm = ft.Communicator.start()
        >>> leader = comm.world.leader
        >>> if comm.world.is_leader:
        ...     sent = [ft.Sending(comm, np.arange(3.0), to=rank, number=6)
        ...             for rank in comm.world.ranks if rank != leader]
        ...     assert all(sending.wait() for sending in sent)
        ... else:
        ...     receiving = ft.Receiving(comm, np.empty(3), source=leader, number=6)
        ...     assert receiving.wait().tolist() == [0.0, 1.0, 2.0]
        >>> comm.barrier()  # the members' next numbered operation
    """

    def __init__(
        self,
        communicator: Communicator,
        into: np.ndarray,
        *,
        source: int,
        number: int,
        channel: int = 0,
    ) -> None:
        tag = _tag(number, channel)
        super().__init__(
            communicator, into, source, lambda comm, place: comm.Irecv(into, source=place, tag=tag)
        )

    def wait(self) -> np.ndarray | None:
        """Wait for the peer's message; local.

        Returns:
            The vector that the peer sent, or None where it or this communicator is gone.
        """
        return self._vector if self._ended() else None


class Swap:
    """One vector on its way to a peer, and one from a peer (not always the same).

    Not one of the communicator's numbered operations: it waits for the two peers
    alone, and is not replayed. A death never raises here: what did not come whole
    is None, and the next numbered operation finds the death.

    Making it is local. Every peer must make its part, with the same *number*, before
    the members' next numbered operation; each ends it by :meth:`wait`, also after
    further operations. A repair in between ends it without a result.

    Args:
        communicator: communicator of all three.
        send: contiguous; not to be written before :meth:`wait` has returned.
        to, source: original ranks of living members, other than this one.
        number: number that tells one swap from the next.

    Raises:
        UsageError: *to* or *source* is this rank or no living member.

    Example:
        >>> comm = ft.Communicator.start()
        >>> ranks, place = comm.world.ranks, comm.world.place
        >>> if comm.world.size > 1:  # a ring
        ...     right, left = ranks[(place + 1) % len(ranks)], ranks[place - 1]
        ...     swap = ft.Swap(comm, np.array([place]), to=right, source=left, number=7)
        ...     assert swap.wait().tolist() == [(place - 1) % len(ranks)]
        >>> comm.barrier()  # the members' next numbered operation
    """

    def __init__(
        self, communicator: Communicator, send: np.ndarray, *, to: int, source: int, number: int
    ) -> None:
        self._receiving = Receiving(communicator, np.empty_like(send), source=source, number=number)
        self._sending = Sending(communicator, send, to=to, number=number)

    def wait(self) -> np.ndarray | None:
        """Wait for both messages; local.

        Returns:
            The vector that the peer sent, or None where one of the peers or this communicator is
            gone.
        """
        got, sent = self._receiving.wait(), self._sending.wait()
        return got if sent else None


_failed: list[_Transfer] = []
