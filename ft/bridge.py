"""A connection of two processes, one of which does not take part in the run yet.

A process that is started to take the place of one that died is a *newcomer*; the member that
started it is its *sponsor*. They exchange messages, which are small JSON objects, over an MPI
communicator of the two. Neither waits for the other without checking that it is alive.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ft import mpi
from ft.processes import is_alive

__all__ = ["Bridge", "BridgeBroken", "Message"]

Message = dict[str, Any]

_TAG = 77
_LOOK_S = 0.005
_LOOKS = 40  # between two checks that the other process is alive


class BridgeBroken(Exception):
    """The process at the other end of a bridge has ended."""


class Bridge:
    """One end of the connection between a sponsor and a newcomer.

    Args:
        comm: an ``mpi4py.MPI.Comm`` of the two processes, which this object owns from now on.
        other: rank of the other process in *comm*.
    """

    def __init__(self, comm: Any, other: int) -> None:
        self._mpi = mpi.load()
        self.comm = comm
        self.other = other
        self.pid = 0
        """Process id of the other end, if it has told it and is on this host; else 0."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send *message*; local, because the message is small.

        Raises:
            BridgeBroken: the other process has ended.
        """
        content = np.frombuffer(json.dumps(message).encode(), np.uint8)
        try:
            self.comm.Send(content, dest=self.other, tag=_TAG)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def receive(self) -> Message | None:
        """Receive the next message, if one has arrived; else return None. Local.

        Raises:
            BridgeBroken: the other process has ended.
        """
        status = self._mpi.Status()
        try:
            if not self.comm.Iprobe(source=self.other, tag=_TAG, status=status):
                return None
            content = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
            self.comm.Recv(content, source=self.other, tag=_TAG)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None
        message: Message = json.loads(content.tobytes())
        return message

    def wait(self, idle: Callable[[], None] = lambda: None) -> Message:
        """Wait for the next message; local, without busy waiting.

        Args:
            idle: local function called some hundred times a second while waiting; none by default.

        Raises:
            BridgeBroken: the other process has ended.
        """
        looks = 0
        while (message := self.receive()) is None:
            idle()
            looks += 1
            if looks % _LOOKS == 0 and self.is_broken():
                raise BridgeBroken("the other process has ended")
            time.sleep(_LOOK_S)
        return message

    def is_broken(self) -> bool:
        """Whether the other process is known to have ended. Local."""
        if self.pid and not is_alive(self.pid):
            return True
        try:
            return bool(self.comm.Get_failed().Get_size())
        except self._mpi.Exception:
            return True
