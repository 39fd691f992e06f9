"""The way of a newcomer from its first word with its sponsor to its admission by all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.bridge import Bridge, BridgeBroken, Message
from ft.connecting import LONG_STEP_S, between_two, ended_after, to_all
from ft.errors import Unrecoverable
from ft.newcomers import COME, END, MEMBER
from ft.views import View
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["Admission", "Invitation"]

_CONNECT_S = 120


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
        bridge: connection to the sponsor, such as :meth:`ft.ColdSpares.wait` gives; its first
            message is ``welcome``.

    Raises:
        Unrecoverable: the sponsor is gone already.

    Example:
        >>> ft.Invitation.received() is None  # nobody started this process
        True
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._mpi = mpi.load()
        with ended_after(LONG_STEP_S):
            try:
                self.welcome = welcome = bridge.wait()
            except BridgeBroken as error:
                raise Unrecoverable(f"who called this process is gone: {error}") from None
        self.rank = int(welcome["rank"])
        self.member = Member.here(self.rank)
        bridge.tell({MEMBER: encode_member(self.member).tobytes().hex()})

    @staticmethod
    def received() -> Invitation | None:
        """The invitation of the member that started this process by :class:`ft.Spawn`; local, once.

        It initialises MPI, so it comes after :func:`ft.allow_newcomers` and before
        :meth:`ft.Communicator.start`.

        Returns:
            The invitation; None for a process that no member started.

        Raises:
            Unrecoverable: the sponsor is gone already.
        """
        MPI = mpi.load()
        if not mpi.has_mpi() or MPI.Comm.Get_parent() == MPI.COMM_NULL:
            return None
        with ended_after(_CONNECT_S):
            try:
                bridge = Bridge(between_two(MPI.Comm.Get_parent(), high=True), 0)
            except MPI.Exception as error:
                raise Unrecoverable(f"who started this process is gone: {error}") from None
        return Invitation(bridge)

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
            if END in message:
                raise Unrecoverable(f"this process is not wanted: {message[END]}")
            if COME not in message:
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
