"""A connection of two processes, of which one has no part yet in what the others do.

A process that is started to take the place of one that died is a *newcomer*; the member that
started it is its *sponsor*. They speak over an MPI communicator of the two, in messages that are
small JSON objects, and neither ever waits for the other without looking whether it lives.
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
_LOOKS = 40  # between two looks for whether the other process lives


class BridgeBroken(Exception):
    """The other end of a bridge is gone."""


class Bridge:
    """One end of the connection.

    Args:
        comm: an ``mpi4py.MPI.Comm`` of the two, which this object owns from now on.
        other: rank of the other end in it.
    """

    def __init__(self, comm: Any, other: int) -> None:
        self._mpi = mpi.load()
        self.comm = comm
        self.other = other
        self.pid = 0
        """Process id of the other end, where it has said one and is on this host."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send *message*; local, for it is small.

        Raises:
            BridgeBroken: the other end is gone.
        """
        content = np.frombuffer(json.dumps(message).encode(), np.uint8)
        try:
            self.comm.Send(content, dest=self.other, tag=_TAG)
        except self._mpi.Exception as error:
            raise BridgeBroken(str(error)) from None

    def heard(self) -> Message | None:
        """The next message that has come; None where none has. Local.

        Raises:
            BridgeBroken: the other end is gone.
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
        """Wait for the next message without keeping a core busy.

        Args:
            idle: local function called some hundred times a second meanwhile; none by default.

        Raises:
            BridgeBroken: the other end is gone.
        """
        looks = 0
        while (message := self.heard()) is None:
            idle()
            looks += 1
            if looks % _LOOKS == 0 and self.is_broken():
                raise BridgeBroken("the other process has ended")
            time.sleep(_LOOK_S)
        return message

    def is_broken(self) -> bool:
        """Whether the other end is known to be gone. Local."""
        if self.pid and not is_alive(self.pid):
            return True
        try:
            return bool(self.comm.Get_failed().Get_size())
        except self._mpi.Exception:
            return True
