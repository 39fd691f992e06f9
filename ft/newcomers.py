"""Processes that come to take the places of those who died.

The member that has one come, its *sponsor*, is the only one to whom a newcomer can speak until it
is admitted. When either dies before that, the other gives up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ft import mpi
from ft.bridge import Bridge, BridgeBroken, Message
from ft.connecting import between_two, connected
from ft.views import View
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["COME", "END", "MEMBER", "Newcomer", "Spawn", "Way"]

#: The fields of messages: the newcomer, as it introduces itself; that all connect with it now; why
#: it is to end.
MEMBER, COME, END = "member", "come", "end"


class Way(Protocol):
    """A way by which a process comes. Local to its sponsor.

    Example:
        >>> comes: ft.Way | None = None  # a ft.Spawn, or what ft.ColdSpares.call gives
    """

    def bridge(self) -> Bridge | None:
        """Connect with the process, where it is there; local.

        Returns:
            The connection; None as long as it is not there.

        Raises:
            BridgeBroken: it will not come.
        """
        ...


class Spawn:
    """A process that is started on this host, in a thread, for that takes a second.

    :func:`ft.allow_newcomers` lets MPI allow for it.

    Args:
        command: program and arguments, which call :meth:`ft.Invitation.received`.

    Example:
        >>> import sys
        >>> starts = lambda: ft.Spawn([sys.executable, "train.py"])
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._mpi = mpi.load()
        self._bridge: Bridge | None = None
        self._failure = ""
        self._thread = threading.Thread(target=self._start, args=[list(command)], daemon=True)
        self._thread.start()

    def _start(self, command: list[str]) -> None:
        try:
            world = self._mpi.COMM_SELF.Spawn(command[0], command[1:], maxprocs=1)
            self._bridge = Bridge(between_two(world, high=False), 1)
        except self._mpi.Exception as error:
            self._failure = str(error)

    def bridge(self) -> Bridge | None:
        """Connect with the process, where it is there; local.

        Returns:
            The connection; None as long as it is not there.

        Raises:
            BridgeBroken: it will not come.
        """
        if self._failure:
            raise BridgeBroken(self._failure)
        return self._bridge


class Newcomer:
    """A process that is to become a member, as its sponsor sees it. Local to the sponsor.

    The sponsor works on while it comes, and looks for it now and then by :meth:`heard`.

    Args:
        rank: original rank that it will have; nobody has had it.
        way: start of it, a :class:`ft.Spawn` or a call by :meth:`ft.ColdSpares.call`.
        welcome: content of the first message to it, of what JSON knows.

    Example:
        >>> command = ["python", "train.py"]
        >>> starts = lambda rank: ft.Newcomer(rank, ft.Spawn(command), {"fit": 0})
    """

    def __init__(self, rank: int, way: Way, welcome: Mapping[str, Any]) -> None:
        self.rank = rank
        self.started_s = time.monotonic()
        self.welcomed_s: float | None = None
        """Time of its welcome, as by ``time.monotonic()``; None as long as it is not there."""
        self.member: Member | None = None
        self.failure = ""
        """Reason for which it could not be started, or is gone; "" where it lives."""
        self._way = way
        self._bridge: Bridge | None = None
        self._awaits = False  # an answer to its last message
        self._welcome = {**welcome, "rank": rank}

    def heard(self) -> Message | None:
        """Look for the next message that came from it. Local.

        Returns:
            The message; None where none has come, or where it is gone, see ``failure``.
        """
        if self.failure:
            return None
        bridge = self._bridge
        try:
            if bridge is None:
                self._welcome_it()
                return None
            message = bridge.heard()
        except BridgeBroken as error:
            self.failure = str(error)
            return None
        if message is None and bridge.is_broken():
            self.failure = "its process has ended"
            return None
        if message is not None and MEMBER in message:
            content = np.frombuffer(bytes.fromhex(message[MEMBER]), np.uint8)
            self.member = decode_member(self.rank, content)
            if self.is_here:
                bridge.pid = self.member.pid
            return None
        self._awaits = message is not None or self._awaits
        return message

    def _welcome_it(self) -> None:
        """Connect with it, where it is there."""
        try:
            self._bridge = self._way.bridge()
        except BridgeBroken as error:
            raise BridgeBroken(f"no process could be started: {error}") from None
        if self._bridge is not None:
            self._bridge.tell(self._welcome)
            self.welcomed_s = time.monotonic()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send it a message. Local; nothing happens where it is gone.

        Args:
            message: content, of what JSON knows.
        """
        if self._bridge is None or self.failure:
            return
        self._awaits = False
        try:
            self._bridge.tell(message)
        except BridgeBroken as error:
            self.failure = str(error)

    def give_up(self, why: str) -> None:
        """End its process, and have nothing more to do with it. Local.

        It ends where it waits for its sponsor, or when it next does; on this host at once.

        Args:
            why: reason of it, kept as ``failure`` where there is none yet.
        """
        if self.is_here and not self._awaits:
            assert self.member is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.member.pid, signal.SIGKILL)
        else:
            self.tell({END: why})
        self.failure = self.failure or why

    @property
    def is_here(self) -> bool:
        """Whether it has said who it is, and its process is one of this host's. Local."""
        here, there = Member.here(self.rank), self.member
        return there is not None and (there.host, there.space) == (here.host, here.space)

    def connected(self, new: Any, root: int) -> Any:
        """Connect it with all; collective, with the others in :func:`ft.connecting.connected`.

        Args:
            new: communicator of the others, an ``mpi4py.MPI.Comm``.
            root: rank of this process in it.

        Returns:
            The communicator of all and of it.
        """
        assert self._bridge is not None
        self.tell({COME: True})
        return connected(new, root, self._bridge.comm)

    def settle(self, world: World, view: View, hosts: Mapping[int, str]) -> None:
        """Tell it that all have admitted it, and what they know; local.

        Args:
            world, view: members and those in reserve, the newcomer among them.
            hosts: host of each original rank that there has been.
        """
        everyone = [(m.rank, encode_member(m).tobytes().hex()) for m in world.everyone]
        known = {"generation": world.generation, "spread": world.spread, "members": everyone}
        packed = view.pack(len(hosts)).tolist()
        self.tell({**known, "settled": packed, "hosts": list(hosts.items())})
