"""Ranks that wait, at no cost, until one that works is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ft.errors import UsageError
from ft.operations import OperationLog
from ft.records import Recovery
from ft.views import Purpose

__all__ = ["Standby"]

# A blocking call of Open MPI 5.0 keeps a core busy. So often one looks instead.
_LOOK_S = 0.005
_LOOKS = 40  # between two looks for whether anybody works at all


class Standby(OperationLog):
    """Members may step aside, and come back in the place of one that died.

    ::

        if not comm.set_aside(4):
            if comm.wait().met != ft.Purpose.FILL:
                ...                     # nobody died: all are members again
        while work:
            comm.fill()                 # a newcomer can begin here
            ...

    A rank in reserve takes part in repairs, and in nothing else. While members are in
    operations its death disturbs nobody.
    """

    @property
    def vacancies(self) -> int:
        """How many places of the dead :meth:`fill` would try to fill. Local, equal everywhere."""
        return min(len(self._vacant), len(self._world.reserve))

    def set_aside(self, working: int) -> bool:
        """Let all but the first *working* members wait; collective. Whether this rank works on.

        Args:
            working: the same on all; so no number of living members, of which some learn
                later than others.

        Raises:
            UsageError: without ULFM; or some are in reserve already.
        """
        if working < 1 or not self._ulfm or self._world.reserve:
            raise UsageError(
                "set_aside() wants ULFM, nobody in reserve, and at least one member that works. "
                f"Received: ulfm={self._ulfm}, {len(self._world.reserve)} in reserve, "
                f"working={working}"
            )
        self._keep = working
        self._agree_on(
            Purpose.ASIDE,
            "members are set aside",
            until=lambda: self._world.size <= working,
        )
        return not self._world.waits

    def wait(self, idle: Callable[[], None] = lambda: None) -> Recovery:
        """Wait until this rank is a member again; to be called by each one set aside.

        ``met`` of what is returned says why: FILL, a rank died and this one has its place;
        RETURN, or CLOSE, the others called all back.

        Args:
            idle: called some hundred times a second meanwhile.

        Raises:
            Unrecoverable: all members died; on all in reserve.
        """
        if not self._world.waits:
            raise UsageError("wait() is for ranks in reserve. Received: a member")
        while True:
            self._await_repair(idle)
            self._detect_time_s = time.time()
            recovery = self._change_view(Purpose.WAIT)
            if not self._world.waits:
                return recovery

    def fill(self) -> tuple[tuple[int, int], ...]:
        """Let spares take the places of those who died; collective over the members.

        To be called where a newcomer can begin; what it needs to know the caller sends. Local
        where no place is vacant or nobody waits. Where others did not know of the death when
        they were here, and are in the next operation, places stay vacant until the next call.

        Returns:
            Pairs of the rank that is gone and the one that took its place; none, and the caller
            goes on, where none was taken.
        """
        found: list[tuple[int, int]] = []
        self._agree_on(
            Purpose.FILL,
            "places are filled",
            until=lambda: not self.vacancies,
            needless=True,
            heard=lambda recovery: found.extend(recovery.replaced),
        )
        return tuple(found)

    def call_back(self, *, closing: bool = False) -> None:
        """Make members of all who wait; collective over the members. Local where nobody waits.

        Args:
            closing: to leave together.
        """
        purpose = Purpose.CLOSE if closing else Purpose.RETURN
        self._agree_on(
            purpose, "those in reserve are called back", until=lambda: not self._world.reserve
        )

    def lost_in_reserve(self) -> tuple[int, ...]:
        """The ranks in reserve that MPI knows to be dead, before any repair. Local."""
        waiting = {member.rank for member in self._world.reserve}
        return tuple(rank for rank in self._known_dead() if rank in waiting) if waiting else ()

    def _known_dead(self) -> list[int]:
        failed, whole = self._whole.Get_failed(), self._whole.Get_group()
        places: Any = self._mpi.Group.Translate_ranks(failed, range(failed.Get_size()), whole)
        return [self._present[place] for place in places]

    def _await_repair(self, idle: Callable[[], None]) -> None:
        looks = 0
        while not self._whole.Is_revoked():
            self._mpi.COMM_SELF.Iprobe()  # any call that makes the library look at its events
            idle()
            looks += 1
            if looks % _LOOKS == 0 and set(self._world.ranks) <= set(self._known_dead()):
                self._whole.Revoke()  # so that all in reserve come to it, and find nobody who works
                break
            time.sleep(_LOOK_S)
