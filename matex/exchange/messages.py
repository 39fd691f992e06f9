"""Messages of an exchange of slices through mpi4py, and the memory that MPI uses for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.exchange.route import Message, Phase

__all__ = ["TAGS", "SliceMessages"]

#: First tag: lower tags belong to :mod:`ft.p2p`.
TAGS = 1 << 15

_Key = tuple[int, Phase, int]


class SliceMessages:
    """Messages of one exchange of slices, and their buffers. Local.

    Args:
        comm: ``mpi4py.MPI.Comm`` of the members.
    """

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm
        self._receiving: dict[_Key, tuple[Any, np.ndarray]] = {}
        self._requests: list[tuple[Any, np.ndarray]] = []

    def receive(self, bucket: int, message: Message, nbytes: int) -> None:
        """Begin to receive a *message* of *bucket*."""
        buffer = np.empty(nbytes, np.uint8)
        tag = TAGS + 4 * bucket + message.phase
        request = self._comm.Irecv([buffer, self._mpi.BYTE], source=message.peer, tag=tag)
        self._receiving[bucket, message.phase, message.whose] = (request, buffer)

    def send(self, bucket: int, message: Message, part: np.ndarray) -> None:
        """Begin to send *part*, which stays unchanged until the end, as a *message* of *bucket*."""
        tag = TAGS + 4 * bucket + message.phase
        buffer = part.view(np.uint8)
        request = self._comm.Isend([buffer, self._mpi.BYTE], dest=message.peer, tag=tag)
        self._requests.append((request, buffer))

    def received(self, bucket: int, phase: Phase, whose: int) -> np.ndarray | None:
        """Wait for a message and return its bytes; None if no such message is expected."""
        request, buffer = self._receiving.get((bucket, phase, whose), (None, None))
        if request is not None:
            request.Wait()
        return buffer

    def end(self) -> None:
        """Wait until all buffers are free again."""
        for request, _ in self._requests:
            request.Wait()

    def over(self) -> bool:
        """Whether MPI has finished all messages of a failed exchange. Local."""
        waiting = False
        for request, _ in (*self._receiving.values(), *self._requests):
            try:
                waiting |= not request.Test()
            except self._mpi.Exception:
                continue
        return not waiting
