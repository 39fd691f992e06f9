"""A newcomer's side of joining a run, from its first message to its admission."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.bridge import Bridge, BridgeBroken, Message
from ft.connecting import LONG_STEP_S, between_two, ended_after, to_all
from ft.errors import Unrecoverable
from ft.newcomers import COME, END, MEMBER, STARTED
from ft.views import View
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["STARTED_FOR_IT", "Admission", "Invitation"]

#: Environment variable about the process that MPI has started, where that has a forked one in its
#: place: its process id, and the number of the signal at which both end, that one with status 1.
STARTED_FOR_IT = "FT_STARTED_FOR_IT"

_CONNECT_S = 120


class Admission(NamedTuple):
    """Membership that a newcomer receives when it is admitted.

    Args:
        whole: communicator of members and spares, an ``mpi4py.MPI.Comm``.
        world: members and spares; this rank is one of the spares.
        view: view of all ranks.
        hosts: host of each original rank so far, dead ranks included.

    Example:
        >>> enters = lambda comm, admission: comm.join(admission)  # a newcomer, which then waits
    """

    whole: Any
    world: World
    view: View
    hosts: dict[int, str]


class Invitation:
    """Invitation by a sponsor, on the newcomer. Local; at most one per process.

    From now until the admission SIGTERM ends the process with status 1: the sponsor sends it when
    no newcomer is needed any more, and mpiexec does not report it.

    Args:
        bridge: connection to the sponsor, such as :meth:`ft.ColdSpares.wait` gives; its first
            message is ``welcome``.

    Raises:
        Unrecoverable: the sponsor has died, or needs no newcomer any more.

    Example:
        >>> ft.Invitation.received() is None  # nobody started this process
        True
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._mpi = mpi.load()
        self._at_term = signal.signal(signal.SIGTERM, _leave)
        with ended_after(LONG_STEP_S):
            try:
                self.welcome = welcome = bridge.wait()
            except BridgeBroken as error:
                raise Unrecoverable(f"who called this process is gone: {error}") from None
        self._look_for_end(welcome)
        self.rank = int(welcome["rank"])
        self.member = Member.here(self.rank)
        started = [int(number) for number in os.environ.get(STARTED_FOR_IT, "").split()]
        member = encode_member(self.member).tobytes().hex()
        bridge.tell({MEMBER: member, STARTED: started or None})

    @staticmethod
    def received() -> Invitation | None:
        """Invitation of the member that started this process by :class:`ft.Spawn`; local, once.

        It initialises MPI: call it after :func:`ft.allow_newcomers` and before
        :meth:`ft.Communicator.start`.

        Returns:
            The invitation; None if no member started this process.

        Raises:
            Unrecoverable: the sponsor has died.
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
        """World of this process alone, which is no leader. Local.

        A communicator of this world and MPI_COMM_SELF serves until this process is admitted.
        """
        return World(members=(self.member,), rank=self.rank, awaits_admission=True)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message to the sponsor. Local.

        Args:
            message: content that can be written as JSON.

        Raises:
            Unrecoverable: the sponsor has died.
        """
        try:
            self._bridge.tell(message)
        except BridgeBroken as error:
            raise Unrecoverable(f"who started this process is gone: {error}") from None

    def wait(self) -> Message | Admission:
        """Wait for the sponsor's next message, or for admission by all ranks; local.

        Returns:
            The message, or the membership for :meth:`ft.Communicator.join`.

        Raises:
            Unrecoverable: the sponsor has died, or the admission failed.
        """
        try:
            message = self._bridge.wait()
            self._look_for_end(message)
            if COME not in message:
                return message
            with ended_after(_CONNECT_S):
                return self._joined()
        except (self._mpi.Exception, BridgeBroken) as error:
            raise Unrecoverable(f"this process could not be admitted: {error}") from None

    def _look_for_end(self, message: Message) -> None:
        if END in message:
            raise Unrecoverable(f"this process is not wanted: {message[END]}")

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
            spares=tuple(members[rank] for rank in view.waiting),
            spread=given["spread"],
        )
        if signal.getsignal(signal.SIGTERM) is _leave:  # the script may have set its own
            signal.signal(signal.SIGTERM, self._at_term)
        return Admission(whole, world, view, {int(rank): host for rank, host in given["hosts"]})


def _leave(_number: int, _frame: object) -> None:
    os._exit(1)
