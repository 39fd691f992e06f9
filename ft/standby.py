"""Spares: ranks that wait, without using a core, until a working rank is lost."""

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

# A blocking call of Open MPI 5.0 keeps a core busy, so spares poll at this interval instead.
_LOOK_S = 0.005
_LOOKS = 40  # polls between two checks that any working rank is left


class Standby:
    """Sets members aside as spares, and makes spares members in the places of dead ranks.

    ::

        if not comm.set_aside(4):
            if comm.wait().agreed_purpose != ft.Purpose.FILL:
                ...                     # nobody died: all are members again
        while work:
            comm.fill()                 # a newcomer can begin here
            ...

    A spare takes part in repairs, and in nothing else. Its death while members are in operations
    does not interrupt them.

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
        """Number of places that :meth:`fill` would try to fill. Local, equal on all ranks."""
        return min(len(self._membership.vacant), len(self._membership.world.spares))

    def set_aside(self, working: int) -> bool:
        """Let all but the first *working* members wait in reserve; collective.

        Args:
            working: number of members that go on working, at least 1, equal on all ranks. The
                number of living members would not be: some ranks learn of a death later than
                others.

        Returns:
            True if this rank works on; if False the rank calls :meth:`wait` next.

        Raises:
            UsageError: no ULFM; or ranks are in reserve already; or *working* is below 1.
        """
        membership = self._membership
        if working < 1 or not membership.ulfm or membership.world.spares:
            raise UsageError(
                "set_aside() wants ULFM, nobody in reserve, and at least one member that works. "
                f"Received: ulfm={membership.ulfm}, {len(membership.world.spares)} in reserve, "
                f"working={working}"
            )
        membership.set_working(working)
        membership.agree_on(
            Purpose.SET_ASIDE,
            "members are set aside",
            until=lambda: membership.world.size <= working,
        )
        return not membership.world.is_spare

    def wait(self, idle: Callable[[], None] = lambda: None) -> Recovery:
        """Wait until this rank is a member again; called by each rank that was set aside.

        Args:
            idle: local function called some hundred times a second while waiting; none by default.

        Returns:
            View change by which it became a member. ``agreed_purpose`` is the reason: FILL, a rank
            died and this rank has its place; CALL_BACK or CLOSE, the members called all spares
            back.

        Raises:
            Unrecoverable: all members died; raised on all spares.
            UsageError: this rank is a member.
        """
        membership = self._membership
        if not membership.world.is_spare:
            raise UsageError("wait() is for ranks in reserve. Received: a member")
        while True:
            self._await_repair(idle)
            self._log.detect_time_s = time.time()
            recovery = membership.change_view(Purpose.WAIT)
            if not membership.world.is_spare:
                return recovery

    def fill(self) -> tuple[tuple[int, int], ...]:
        """Let spares take the places of dead ranks; collective over the members.

        It is called at a point at which a newcomer can begin; the caller then sends the newcomer
        its state. It is local if no place is vacant or no spare is left. If other members did not
        know of the death when they were here, and are in the next operation, places stay vacant
        until the next call.

        Returns:
            Pairs of a lost rank and the spare that took its place; empty if no place was taken, and
            then the caller goes on.
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

    def set_places(self, size: int) -> None:
        """Set the number of places for members, with vacant ones. Local, equally on all members.

        Vacant places are given up, or added for ranks in reserve as far as there are any.

        Args:
            size: number of places; those of the present members stay in any case.
        """
        membership = self._membership
        room = max(size - membership.world.size, 0)
        left = membership.vacant[:room]
        # A place that is added has the number of the first rank that would take it.
        waiting = [member.rank for member in membership.world.spares]
        membership.vacant = (*left, *waiting[len(left) : room])

    def call_back(self, *, closing: bool = False) -> None:
        """Make all spares members; collective over the members. Local if there is no spare.

        Args:
            closing: whether all ranks leave together next; False by default.
        """
        membership = self._membership
        membership.agree_on(
            Purpose.CLOSE if closing else Purpose.CALL_BACK,
            "those in reserve are called back",
            until=lambda: not membership.world.spares,
        )

    def lost_spares(self) -> tuple[int, ...]:
        """Spares that MPI knows to be dead, before any repair. Local.

        Returns:
            Original ranks, in no particular order.
        """
        membership = self._membership
        waiting = {member.rank for member in membership.world.spares}
        return tuple(rank for rank in membership.known_dead() if rank in waiting) if waiting else ()

    def _await_repair(self, idle: Callable[[], None]) -> None:
        membership, looks = self._membership, 0
        while not membership.whole.Is_revoked():
            self._mpi.COMM_SELF.Iprobe()  # any call that makes the library look at its events
            idle()
            looks += 1
            if looks % _LOOKS == 0 and set(membership.world.ranks) <= set(membership.known_dead()):
                # Then all spares come to the repair, and find that no working rank is left.
                membership.whole.Revoke()
                break
            time.sleep(_LOOK_S)
