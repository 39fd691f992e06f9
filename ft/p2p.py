"""Point-to-point messages of vectors, sent and received while this rank computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ft import mpi
from ft.communicator import Communicator
from ft.errors import UsageError
from ft.pieces import pieces

__all__ = ["Receiving", "Sending", "Swap"]

# MPI guarantees tags up to 32767: enough for two channels with this many numbers each.
_TAGS = 1 << 14
_CHANNELS = 2


def _tag(number: int, channel: int) -> int:
    if channel not in range(_CHANNELS):
        raise UsageError(f"a channel is below {_CHANNELS}. Received: {channel}")
    return channel * _TAGS + number % _TAGS


class _Transfer:
    """One vector being sent or received: see :class:`Swap`, whose rules apply."""

    def __init__(
        self,
        communicator: Communicator,
        vector: np.ndarray,
        peer: int,
        post: Callable[[Any, np.ndarray, int], Any],
    ) -> None:
        ranks = communicator.world.ranks
        if peer not in ranks or peer == communicator.world.rank:
            raise UsageError(
                f"messages are for other living members, of {ranks}. Received: rank {peer}"
            )
        self._mpi = mpi.load()
        self._communicator = communicator
        self._vector = vector
        self._requests: list[Any] = []
        self._whole = True
        try:
            # Messages of one pair and tag arrive in the order in which they were sent.
            for piece in pieces(vector):
                self._requests.append(post(communicator.handle, piece, ranks.index(peer)))
        except self._mpi.Exception:  # somebody died already
            self._whole = False

    def _ended(self) -> bool:
        if not self._requests:
            return False
        with self._communicator.hooks.waiting():
            for request in self._requests:
                try:
                    request.Wait()
                except self._mpi.Exception:
                    self._whole = False
        if not self._whole:
            # MPI may still write to, or read, the buffer of a failed request.
            _failed.append(self)
        return self._whole


class Sending(_Transfer):
    """Send of a vector to a peer, which makes a :class:`Receiving`; local.

    Args:
        communicator: communicator of the two ranks.
        vector: contiguous array, not to be written before :meth:`wait` has returned.
        to: original rank of a living member, other than this one.
        number: number that distinguishes the message from the next.
        channel: 0 or 1, 0 by default; numbers count separately in each channel.

    Raises:
        UsageError: *to* is this rank or no living member, or *channel* is not 0 or 1.

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
            communicator,
            vector,
            to,
            lambda comm, piece, place: comm.Isend(piece, dest=place, tag=tag),
        )

    def wait(self) -> bool:
        """Wait until *vector* may be written again; local.

        Returns:
            True if the message was sent; False if the peer or this communicator has failed.
        """
        return self._ended()


class Receiving(_Transfer):
    """Receive of a vector from a peer, which makes a :class:`Sending`; local.

    Args:
        communicator: communicator of the two ranks.
        into: contiguous array of the shape and dtype that the peer sends, read after :meth:`wait`.
        source: original rank of a living member, other than this one.
        number, channel: number and channel of the peer's :class:`Sending`.

    Raises:
        UsageError: *source* is this rank or no living member, or *channel* is not 0 or 1.

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
            communicator,
            into,
            source,
            lambda comm, piece, place: comm.Irecv(piece, source=place, tag=tag),
        )

    def wait(self) -> np.ndarray | None:
        """Wait for the peer's message; local.

        Returns:
            The vector that the peer sent; None if the peer or this communicator has failed.
        """
        return self._vector if self._ended() else None


class Swap:
    """Send of a vector to a peer, and receive of a vector from the same or another peer.

    It is no numbered operation of the communicator: it waits for the two peers alone, and is not
    replayed. A death never raises here: a vector that did not arrive whole is None, and the next
    numbered operation reports the death.

    Construction is local. Every peer must make its part, with the same *number*, before the
    members' next numbered operation, and ends it by :meth:`wait`, also after further operations. A
    repair before :meth:`wait` ends it without a result.

    Args:
        communicator: communicator of the three ranks.
        send: contiguous array, not to be written before :meth:`wait` has returned.
        to, source: original ranks of living members, other than this one.
        number: number that distinguishes the swap from the next.

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
            The vector that *source* sent; None if one of the peers or this communicator has failed.
        """
        got, sent = self._receiving.wait(), self._sending.wait()
        return got if sent else None


_failed: list[_Transfer] = []
