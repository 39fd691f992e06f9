"""Ranks that wait, at no cost, until one that works is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

from ft import mpi
from ft.errors import UsageError
from ft.membership import Membership
from ft.operation_log import OperationLog
from ft.records import Recovery
from ft.views import Purpose

__all__ = ["Standby"]

# A blocking call of Open MPI 5.0 keeps a core busy. So often one looks instead.
_LOOK_S = 0.005
_LOOKS = 40  # between two looks for whether anybody works at all


class Standby:
    """Members that step aside, and come back in the place of one that died.

    ::

        if not comm.set_aside(4):
            if comm.wait().met != ft.Purpose.FILL:
                ...                     # nobody died: all are members again
        while work:
            comm.fill()                 # a newcomer can begin here
            ...

    A rank in reserve takes part in repairs, and in nothing else. While members are in
    operations its death disturbs nobody.

    Args:
        membership: members and spares.
        log: operations of this rank.
    """

    def __init__(self, membership: Membership, log: OperationLog) -> None:
        self._mpi = mpi.load()
        self._membership = membership
        self._log = log

    @property
    def vacancies(self) -> int:
        """Number of vacant places that :meth:`fill` would try to fill. Local, equal everywhere."""
        return min(len(self._membership.vacant), len(self._membership.world.reserve))

    def set_aside(self, working: int) -> bool:
        """Let all but the first *working* members wait in reserve; collective.

        Args:
            working: number of members that go on working, at least 1. It must be equal on all
                ranks; the number of living members is not, for some learn later than others of
                a death.

        Returns:
            Whether this rank works on; a rank that does not calls :meth:`wait` next.

        Raises:
            UsageError: without ULFM; or some are in reserve already.
        """
        membership = self._membership
        if working < 1 or not membership.ulfm or membership.world.reserve:
            raise UsageError(
                "set_aside() wants ULFM, nobody in reserve, and at least one member that works. "
                f"Received: ulfm={membership.ulfm}, {len(membership.world.reserve)} in reserve, "
                f"working={working}"
            )
        membership.set_working(working)
        membership.agree_on(
            Purpose.ASIDE,
            "members are set aside",
            until=lambda: membership.world.size <= working,
        )
        return not membership.world.waits

    def wait(self, idle: Callable[[], None] = lambda: None) -> Recovery:
        """Wait until this rank is a member again; called by each rank that was set aside.

        Args:
            idle: local function called some hundred times a second meanwhile; none by default.

        Returns:
            The view change by which it became one. ``met`` says why: FILL, a rank died and this
            one has its place; RETURN, or CLOSE, the others called all back.

        Raises:
            Unrecoverable: all members died; on all in reserve.
            UsageError: this rank is a member.
        """
        membership = self._membership
        if not membership.world.waits:
            raise UsageError("wait() is for ranks in reserve. Received: a member")
        while True:
            self._await_repair(idle)
            self._log.detect_time_s = time.time()
            recovery = membership.change_view(Purpose.WAIT)
            if not membership.world.waits:
                return recovery

    def fill(self) -> tuple[tuple[int, int], ...]:
        """Let spares take the places of those who died; collective over the members.

        It is called where a newcomer can begin; the caller sends what the newcomer needs to know.
        It is local where no place is vacant or nobody waits. Where others did not know of the
        death when they were here, and are in the next operation, places stay vacant until the
        next call.

        Returns:
            Pairs of the rank that is gone and the one that took its place; none, and the caller
            goes on, where none was taken.
        """
        found: list[tuple[int, int]] = []
        self._membership.agree_on(
            Purpose.FILL,
            "places are filled",
            until=lambda: not self.vacancies,
            may_skip=True,
            on_change=lambda recovery: found.extend(recovery.replaced),
        )
        return tuple(found)

    def call_back(self, *, closing: bool = False) -> None:
        """Make members of all who wait; collective over the members. Local where nobody waits.

        Args:
            closing: whether all leave together next; False by default.
        """
        membership = self._membership
        membership.agree_on(
            Purpose.CLOSE if closing else Purpose.RETURN,
            "those in reserve are called back",
            until=lambda: not membership.world.reserve,
        )

    def lost_in_reserve(self) -> tuple[int, ...]:
        """Ranks in reserve that MPI knows to be dead, before any repair. Local.

        Returns:
            Original ranks, in no order.
        """
        membership = self._membership
        waiting = {member.rank for member in membership.world.reserve}
        return tuple(rank for rank in membership.known_dead() if rank in waiting) if waiting else ()

    def _await_repair(self, idle: Callable[[], None]) -> None:
        membership, looks = self._membership, 0
        while not membership.whole.Is_revoked():
            self._mpi.COMM_SELF.Iprobe()  # any call that makes the library look at its events
            idle()
            looks += 1
            if looks % _LOOKS == 0 and set(membership.world.ranks) <= set(membership.known_dead()):
                # so that all in reserve come to it, and find nobody who works
                membership.whole.Revoke()
                break
            time.sleep(_LOOK_S)
