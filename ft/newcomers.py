"""Newcomers: processes that take the places of dead ranks, and how a sponsor starts them.

Until it is admitted, a newcomer communicates only with the member that started it, its *sponsor*.
If one of the two dies before that, the other gives up.
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
from ft.processes import started_at
from ft.views import View
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["COME", "END", "MEMBER", "STARTED", "Newcomer", "PendingProcess", "Spawn"]

#: Fields of messages: the newcomer's own description; the process that MPI has started for it, and
#: the signal that ends that; the request to connect with all ranks; the reason for which the
#: newcomer must end.
MEMBER, STARTED, COME, END = "member", "started", "come", "end"

# Longest wait for a process that has just been started to initialise MPI, and time between looks.
_ARRIVAL_S, _LOOK_S = 10.0, 0.01


class PendingProcess(Protocol):
    """A process that was started or called to become a newcomer. Local to its sponsor.

    Example:
        >>> comes: ft.PendingProcess | None = None  # a ft.Spawn, or what ft.ColdSpares.call gives
    """

    def bridge(self) -> Bridge | None:
        """Connect with the process, if it has arrived; local.

        Returns:
            The connection; None while the process has not arrived.

        Raises:
            BridgeBroken: the process cannot be started or has ended.
        """
        ...


class Spawn:
    """Start of a process on this host, in a thread because it takes a second. Local.

    :func:`ft.allow_newcomers` must have been called before MPI was initialised.

    Args:
        command: program and arguments; the program calls :meth:`ft.Invitation.received`.

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
        """Connect with the process, if it has arrived; local.

        Returns:
            The connection; None while the process has not arrived.

        Raises:
            BridgeBroken: the process could not be started.
        """
        if self._failure:
            raise BridgeBroken(self._failure)
        return self._bridge


class Newcomer:
    """A process that is to become a member, on its sponsor. Local.

    The sponsor works on meanwhile, and calls :meth:`receive` from time to time.

    Args:
        rank: new original rank of the process, higher than all ranks so far.
        process: start of the process, a :class:`ft.Spawn` or a call by :meth:`ft.ColdSpares.call`.
        welcome: content of the first message to it, which can be written as JSON.

    Example:
        >>> command = ["python", "train.py"]
        >>> starts = lambda rank: ft.Newcomer(rank, ft.Spawn(command), {"fit": 0})
    """

    def __init__(self, rank: int, process: PendingProcess, welcome: Mapping[str, Any]) -> None:
        self.rank = rank
        self.started_s = time.monotonic()
        self.welcomed_s: float | None = None
        """Time of the first message to it (``time.monotonic()``); None before it has arrived."""
        self.member: Member | None = None
        self.failure = ""
        """Reason for which the process could not be started or has ended; "" while it lives."""
        self._process = process
        self._bridge: Bridge | None = None
        self._awaits = False  # an answer to its last message
        self._started: tuple[int, int] | None = None  # process id, and signal that ends it
        self._welcome = {**welcome, "rank": rank}

    def receive(self) -> Message | None:
        """Receive its next message, if one has arrived. Local.

        Returns:
            The message; None if there is none, or if the process has ended, see ``failure``.
        """
        if self.failure:
            return None
        bridge = self._bridge
        try:
            if bridge is None:
                self._welcome_it()
                return None
            message = bridge.receive()
        except BridgeBroken as error:
            self.failure = str(error)
            return None
        if message is None and bridge.is_broken():
            self.failure = "its process has ended"
            return None
        if message is not None and MEMBER in message:
            content = np.frombuffer(bytes.fromhex(message[MEMBER]), np.uint8)
            self.member = decode_member(self.rank, content)
            self._started = message.get(STARTED)
            if self.is_here:
                bridge.pid = self.member.pid
            return None
        self._awaits = message is not None or self._awaits
        return message

    def _welcome_it(self) -> None:
        """Connect with the process and send the welcome, if it has arrived."""
        try:
            self._bridge = self._process.bridge()
        except BridgeBroken as error:
            raise BridgeBroken(f"no process could be started: {error}") from None
        if self._bridge is not None:
            self._bridge.tell(self._welcome)
            self.welcomed_s = time.monotonic()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send it a message; without effect if the process has ended. Local.

        Args:
            message: content that can be written as JSON.
        """
        if self._bridge is None or self.failure:
            return
        self._awaits = False
        try:
            self._bridge.tell(message)
        except BridgeBroken as error:
            self.failure = str(error)

    def give_up(self, why: str) -> None:
        """End its process and drop it. Local.

        A process on this host ends at once, others when they next wait for their sponsor.

        Args:
            why: reason, kept as ``failure`` if there is none yet.
        """
        self._end(signal.SIGKILL, why)

    def dismiss(self, why: str) -> None:
        """Let its process, which is not needed any more, end without a word of mpiexec's. Local.

        A process that has just been started is waited for, at most some seconds: it could not
        finish MPI's initialisation without this one. One on this host gets SIGTERM, at which it
        ends, others end when they next wait for their sponsor. Where MPI has started another
        process for it, that must end first: mpiexec would kill and report it otherwise.

        Args:
            why: reason, kept as ``failure`` if there is none yet.
        """
        limit_s = time.monotonic() + _ARRIVAL_S
        if self._bridge is None:
            self._welcome = {END: why}
        while not (self.failure or self._is_met) and time.monotonic() < limit_s:
            self.receive()
            time.sleep(_LOOK_S)
        self._end(signal.SIGTERM, why, started=self._started)

    def _end(
        self, number: signal.Signals, why: str, *, started: tuple[int, int] | None = None
    ) -> None:
        """Send the signal to a process on this host that is at work, and a message to others.

        Args:
            started: process to end in its place, and the signal for it.
        """
        if self.is_here and not self._awaits:
            member = self.member
            assert member is not None
            with contextlib.suppress(ProcessLookupError):
                if started_at(member.pid) == member.started:  # else its id is another's by now
                    os.kill(*(started or (member.pid, number)))
        else:
            self.tell({END: why})
        self.failure = self.failure or why

    @property
    def _is_met(self) -> bool:
        """Whether it has introduced itself, or has been told to end at once."""
        return self.member is not None or (self._bridge is not None and END in self._welcome)

    @property
    def is_here(self) -> bool:
        """Whether it has introduced itself and runs on this host. Local."""
        here, there = Member.here(self.rank), self.member
        return there is not None and there.shares_ids_with(here)

    def connected(self, new: Any, root: int) -> Any:
        """Connect it with all ranks; collective with :func:`ft.connecting.connected` on the others.

        Args:
            new: communicator of the ranks without the newcomer, an ``mpi4py.MPI.Comm``.
            root: rank of this process in *new*.

        Returns:
            Communicator of all ranks and the newcomer.
        """
        assert self._bridge is not None
        self.tell({COME: True})
        return connected(new, root, self._bridge.comm)

    def introduce(self, world: World, view: View, hosts: Mapping[int, str]) -> None:
        """Tell it that all ranks have admitted it, and send it their membership; local.

        Args:
            world, view: members and spares; the newcomer is one of the spares.
            hosts: host of each original rank so far, dead ranks included.
        """
        everyone = [(m.rank, encode_member(m).tobytes().hex()) for m in world.everyone]
        known = {"generation": world.generation, "spread": world.spread, "members": everyone}
        packed = view.pack(len(hosts)).tolist()
        self.tell({**known, "settled": packed, "hosts": list(hosts.items())})
