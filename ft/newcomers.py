"""Processes that a member starts, so that they take the places of those who died.

The member that started one, its *sponsor*, is the only one to whom a newcomer can speak until it
is admitted. When either dies before that, the other gives up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.bridge import Bridge, BridgeBroken, Message
from ft.connecting import between_two, connected, ended_after, to_all
from ft.errors import Unrecoverable
from ft.views import View
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["Admission", "Invitation", "Newcomer"]

_MEMBER = "member"
_COME = "come"
_CONNECT_S = 120


class Newcomer:
    """A process that was started to become a member, as its sponsor sees it. Local to the sponsor.

    The process is started in a thread of its own, for it takes a second, and the sponsor works on;
    :meth:`ft.Invitation.received` lets MPI allow for it.

    Args:
        rank: original rank that it will have; nobody has had it.
        command: program and arguments, which call :meth:`ft.Invitation.received`.
        welcome: content of the first message to it, of what JSON knows.

    Example:
        >>> import sys
        >>> starts = lambda rank: ft.Newcomer(rank, [sys.executable, "train.py"], {"fit": 0})
    """

    def __init__(self, rank: int, command: Sequence[str], welcome: Mapping[str, Any]) -> None:
        self.rank = rank
        self.started_s = time.monotonic()
        self.member: Member | None = None
        self.failure = ""
        """Reason for which it could not be started, or is gone; "" where it lives."""
        self._mpi = mpi.load()
        self._bridge: Bridge | None = None
        self._welcome = {**welcome, "rank": rank}
        self._thread = threading.Thread(target=self._start, args=[list(command)], daemon=True)
        self._thread.start()

    def _start(self, command: list[str]) -> None:
        try:
            world = self._mpi.COMM_SELF.Spawn(command[0], command[1:], maxprocs=1)
            bridge = Bridge(between_two(world, high=False), 1)
            bridge.tell(self._welcome)
        except (self._mpi.Exception, BridgeBroken) as error:
            self.failure = f"no process could be started: {error}"
            return
        self._bridge = bridge

    def heard(self) -> Message | None:
        """Look for the next message that came from it. Local.

        Returns:
            The message; None where none has come, or where it is gone, see ``failure``.
        """
        bridge = self._bridge
        if bridge is None or self.failure:
            return None
        try:
            message = bridge.heard()
        except BridgeBroken as error:
            self.failure = str(error)
            return None
        if message is None and bridge.is_broken():
            self.failure = "its process has ended"
            return None
        if message is not None and _MEMBER in message:
            content = np.frombuffer(bytes.fromhex(message[_MEMBER]), np.uint8)
            self.member = decode_member(self.rank, content)
            bridge.pid = self.member.pid
            return None
        return message

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send it a message. Local; nothing happens where it is gone.

        Args:
            message: content, of what JSON knows.
        """
        if self._bridge is None or self.failure:
            return
        try:
            self._bridge.tell(message)
        except BridgeBroken as error:
            self.failure = str(error)

    def give_up(self, why: str) -> None:
        """End its process, on this host, and have nothing more to do with it. Local.

        Args:
            why: reason of it, kept as ``failure`` where there is none yet.
        """
        self.failure = self.failure or why
        if self.member is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.member.pid, signal.SIGKILL)

    def connected(self, new: Any, root: int) -> Any:
        """Connect it with all; collective, with the others in :func:`ft.connecting.connected`.

        Args:
            new: communicator of the others, an ``mpi4py.MPI.Comm``.
            root: rank of this process in it.

        Returns:
            The communicator of all and of it.
        """
        assert self._bridge is not None
        self.tell({_COME: True})
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


class Admission(NamedTuple):
    """Membership that a newcomer is given when it is admitted.

    Args:
        whole: communicator of all, an ``mpi4py.MPI.Comm``.
        world: members and those in reserve, of whom this rank is one.
        view: view that all have.
        hosts: host of each original rank that there has been.

    Example:
        >>> enters = lambda comm, admission: comm.join(admission)  # a newcomer, which then waits
    """

    whole: Any
    world: World
    view: View
    hosts: dict[int, str]


class Invitation:
    """A sponsor's invitation, on the newcomer. Local; one to a process.

    Args:
        bridge: connection to the sponsor.
        welcome: first message from it.

    Example:
        >>> ft.Invitation.received() is None  # nobody sponsors this process
        True
    """

    def __init__(self, bridge: Bridge, welcome: Message) -> None:
        self._bridge = bridge
        self._mpi = mpi.load()
        self.welcome = welcome
        self.rank = int(welcome["rank"])
        self.member = Member.here(self.rank)
        bridge.tell({_MEMBER: encode_member(self.member).tobytes().hex()})

    @staticmethod
    def received() -> Invitation | None:
        """Initialise MPI, and find the invitation by which this process was started; local, once.

        It comes before :meth:`ft.Communicator.start`, and lets MPI be called by several threads, so
        that this process can sponsor others.

        Returns:
            The invitation; None for a process that no member started.

        Raises:
            Unrecoverable: the sponsor is gone already.
        """
        mpi.allow_threads()
        with ended_after(_CONNECT_S):
            MPI = mpi.load()
            if not mpi.has_mpi() or MPI.Comm.Get_parent() == MPI.COMM_NULL:
                return None
            try:
                bridge = Bridge(between_two(MPI.Comm.Get_parent(), high=True), 0)
                return Invitation(bridge, bridge.wait())
            except (MPI.Exception, BridgeBroken) as error:
                raise Unrecoverable(f"who started this process is gone: {error}") from None

    @property
    def world(self) -> World:
        """The world of this process alone, which leads nobody. Local.

        A communicator of it and of MPI_COMM_SELF serves until this process is admitted.
        """
        return World(members=(self.member,), rank=self.rank, apart=True)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send the sponsor a message. Local.

        Args:
            message: content, of what JSON knows.

        Raises:
            Unrecoverable: the sponsor is gone.
        """
        try:
            self._bridge.tell(message)
        except BridgeBroken as error:
            raise Unrecoverable(f"who started this process is gone: {error}") from None

    def wait(self) -> Message | Admission:
        """Wait for the sponsor's next message, or to be admitted by all; local.

        Returns:
            The message, or the membership for :meth:`ft.Communicator.join`.

        Raises:
            Unrecoverable: the sponsor is gone, or the admission came to nothing.
        """
        try:
            message = self._bridge.wait()
            if _COME not in message:
                return message
            with ended_after(_CONNECT_S):
                return self._joined()
        except (self._mpi.Exception, BridgeBroken) as error:
            raise Unrecoverable(f"this process could not be admitted: {error}") from None

    def _joined(self) -> Admission:
        whole = to_all(self._bridge.comm)
        given = self._bridge.wait()
        view = View.unpack(np.array(given["settled"], np.int64))
        members = {
            rank: decode_member(rank, np.frombuffer(bytes.fromhex(row), np.uint8))
            for rank, row in given["members"]
        }
        world = World(
            members=tuple(members[rank] for rank in view.members),
            rank=self.rank,
            generation=given["generation"],
            reserve=tuple(members[rank] for rank in view.waiting),
            spread=given["spread"],
        )
        return Admission(whole, world, view, {int(rank): host for rank, host in given["hosts"]})
