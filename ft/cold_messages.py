"""Messages of ranks and cold spares over MPI_COMM_WORLD, and connections of two of them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ft import mpi
from ft.bridge import BridgeBroken

__all__ = ["ColdMessages", "Signal"]


class Signal(IntEnum):
    """The meaning of a message, which has no content but for PART's."""

    CALL = 81
    """To a cold spare: become a newcomer of the sender's."""
    HERE = 82
    """The answer to it."""
    WORKS = 83
    """From a newcomer that was admitted: the sender is no cold spare any more."""
    OVER = 84
    """To a cold spare: nobody will call any more."""
    PART = 85
    """To a cold spare of the same host: its content is the addresses of hosts that fell silent."""


class ColdMessages:
    """One end of them.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that serves for nothing else.
    """

    def __init__(self, comm: Any) -> None:
        self._mpi = mpi.load()
        self._comm = comm

    def tell(self, rank: int, tag: Signal, content: bytes = b"") -> None:
        """Send a message, which is small, to a *rank* of the communicator. Local.

        Raises:
            BridgeBroken: it is gone.
        """
        try:
            self._comm.Send([content, self._mpi.BYTE], dest=rank, tag=tag)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def heard(self) -> tuple[int, int, bytes] | None:
        """The source, tag and content of the next message; None where none has come."""
        status = self._mpi.Status()
        try:
            if not self._comm.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
                return None
            source, tag = status.Get_source(), status.Get_tag()
            content = bytearray(status.Get_count(self._mpi.BYTE))
            self._comm.Recv([content, self._mpi.BYTE], source=source, tag=tag)
        except self._mpi.Exception:
            # MPI says so once of each death: it could have been the one who was to send.
            self._comm.Ack_failed(len(self.failed()))
            return None
        return source, tag, bytes(content)

    def has_answered(self, rank: int) -> bool:
        """Whether HERE has come from *rank*, which is taken note of. Local.

        Raises:
            BridgeBroken: it is gone.
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
        """A communicator of the two; both call this, where no other thread makes communicators.

        It is made from a group alone: no call that makes one from MPI_COMM_WORLD works any more
        where one of its processes has died.
        """
        group = self._comm.Get_group().Incl([sponsor, newcomer])
        try:
            return self._mpi.Intracomm.Create_from_group(group, f"matex {sponsor} {newcomer}")
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def failed(self) -> set[int]:
        """Ranks of the communicator that MPI knows to be dead. Local."""
        return set(mpi.failed_ranks(self._comm))
