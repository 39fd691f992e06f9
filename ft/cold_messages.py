"""Messages between ranks and cold spares over MPI_COMM_WORLD, and connections of two of them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ft import mpi
from ft.bridge import BridgeBroken

__all__ = ["ColdMessages", "Signal"]


class Signal(IntEnum):
    """Tag of a message, which names its meaning; only SILENT has content."""

    CALL = 81
    """To a cold spare: become a newcomer, with the sender as its sponsor."""
    HERE = 82
    """A cold spare's answer to CALL."""
    WORKS = 83
    """From an admitted newcomer: the sender is a working rank and no cold spare any more."""
    OVER = 84
    """To a cold spare: the run is over, no call will come."""
    SILENT = 85
    """To a cold spare of the same host; the content is the addresses of hosts that fell silent."""


class ColdMessages:
    """Sends and receives the messages between ranks and cold spares. Local but for :meth:`pair`.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that carries nothing else.
    """

    def __init__(self, comm: Any) -> None:
        self._mpi = mpi.load()
        self._comm = comm

    def tell(self, rank: int, tag: Signal, content: bytes = b"") -> None:
        """Send a small message to *rank* of the communicator. Local.

        Raises:
            BridgeBroken: that rank has died.
        """
        try:
            self._comm.Send([content, self._mpi.BYTE], dest=rank, tag=tag)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def receive(self) -> tuple[int, int, bytes] | None:
        """Source, tag and content of the next message; None if no message has arrived. Local."""
        status = self._mpi.Status()
        try:
            if not self._comm.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
                return None
            source, tag = status.Get_source(), status.Get_tag()
            content = bytearray(status.Get_count(self._mpi.BYTE))
            self._comm.Recv([content, self._mpi.BYTE], source=source, tag=tag)
        except self._mpi.Exception:
            # MPI reports each death once; the dead rank may have been the expected sender.
            self._comm.Ack_failed(len(self.failed()))
            return None
        return source, tag, bytes(content)

    def has_answered(self, rank: int) -> bool:
        """Whether *rank* has answered HERE; the answer is received. Local.

        Raises:
            BridgeBroken: *rank* has died.
        """
        try:
            if not self._comm.Iprobe(source=rank, tag=Signal.HERE):
                if rank in self.failed():
                    raise BridgeBroken("the cold spare has ended")
                return False
            self._comm.Recv(bytearray(), source=rank, tag=Signal.HERE)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None
        return True

    def pair(self, *, sponsor: int, newcomer: int) -> Any:
        """Communicator of *sponsor* and *newcomer*; collective over the two processes.

        It is called where no other thread of theirs makes communicators. It is made from a group,
        because once a process of MPI_COMM_WORLD has died every call that makes a communicator from
        MPI_COMM_WORLD itself fails.
        """
        group = self._comm.Get_group().Incl([sponsor, newcomer])
        try:
            return self._mpi.Intracomm.Create_from_group(group, f"matex {sponsor} {newcomer}")
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def failed(self) -> set[int]:
        """Ranks of the communicator that MPI reports as failed. Local."""
        return set(mpi.failed_ranks(self._comm))
