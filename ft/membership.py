"""Group membership: views of who takes part, changed after a failure, to change places, to leave.

Every view change is a repair of the communicator of all, spares among them, for a repair is the
only call that all survivors end alike. Operations are the members' alone, on a communicator of
their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ft import mpi
from ft.cold_spares import ColdSpares
from ft.errors import UsageError
from ft.exit_guard import fail_stop
from ft.hooks import Hooks
from ft.invitation import Admission
from ft.newcomers import Newcomer
from ft.operation_log import OperationLog
from ft.parting import other_hosts
from ft.records import Recovery
from ft.repair import repair
from ft.silence import SilentHosts
from ft.view_change import ViewChange
from ft.views import ELSEWHERE, Purpose, View
from ft.world import Member, World

__all__ = ["Membership"]

# Survivors are at most one operation apart, so a second view change finds them all there;
# further ones are for deaths on the way.
_VIEW_CHANGES = 20
_SURE = 2


class Membership:
    """The living ranks, and the view changes by which they go on without the dead.

    ``handle`` is the communicator of the members, ``whole`` that of those in reserve, too.
    ``vacant`` are ranks that were lost and not replaced, and newcomers for whom a place was added.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on.
        world: the members of *comm*, in its order.
        log: operations of this rank, whose newest result each view change hands over.
        hooks: functions called at each view change.
        cold: cold spares that wait beside them, whose hosts are wanted without ranks, too; equal
            on all ranks, None by default.
    """

    def __init__(
        self,
        comm: Any,
        world: World,
        log: OperationLog,
        hooks: Hooks,
        cold: ColdSpares | None = None,
    ) -> None:
        self._mpi = mpi.load()
        self.handle = self.whole = comm
        self.world = world
        self.hooks = hooks
        self.ulfm = mpi.has_ulfm()
        self.initial_size = world.size
        self.hosts = {member.rank: member.host for member in world.members}
        self.vacant: tuple[int, ...] = ()
        self._present = world.ranks  # in the order of the communicator of all
        self._working = 0
        self._cold = cold
        self._log = log
        self._newcomer: Newcomer | None = None
        self._silent_hosts = SilentHosts(lambda: other_hosts(self.world))
        self._is_wanted = False  # this rank waits, and a place is vacant

    def introduce(self, members: Sequence[Member]) -> None:
        """Replace members of which only the ranks are known by *members*; local.

        Args:
            members: all that have met, the dead too: hosts of theirs are known from now on.
        """
        known = {member.rank: member for member in members}
        self.world = replace(
            self.world, members=tuple(known[member.rank] for member in self.world.members)
        )
        self.hosts = {rank: member.host for rank, member in known.items()}
        self._watch_hosts()

    def set_working(self, working: int) -> None:
        """Say how many members go on working when some are set aside; local.

        Args:
            working: number of members, equal on all ranks.
        """
        self._working = working

    def enter(self, admission: Admission) -> None:
        """Wait in reserve from now on, as all others have settled; local, on a newcomer.

        Args:
            admission: membership that they have.
        """
        self.handle, self.whole = self._mpi.COMM_NULL, admission.whole
        self.world = admission.world
        self.hosts = dict(admission.hosts)
        self.vacant = admission.view.vacant
        self._is_wanted = bool(self.vacant)
        self._present = (*admission.view.members, *admission.view.waiting)
        self._watch_hosts()

    def admit(self, newcomer: Newcomer | None) -> Member | None:
        """Let a newcomer wait in reserve; collective over the members, with those in reserve.

        Args:
            newcomer: process that the leader sponsors; None on the others.

        Returns:
            The member that was admitted; None where the newcomer, or its sponsor, was lost.
        """
        self._newcomer = newcomer
        admitted: list[Member] = []
        try:
            self.agree_on(
                Purpose.ADMIT,
                "a newcomer is admitted",
                until=lambda: False,
                on_change=lambda recovery: admitted.extend(recovery.admitted),
            )
        finally:
            self._newcomer = None
        return admitted[0] if admitted else None

    def known_dead(self) -> list[int]:
        """Original ranks, members or in reserve, that MPI knows to be dead; local."""
        return [self._present[place] for place in mpi.failed_ranks(self.whole)]

    def recover(self, *, joinable: bool = False) -> Recovery:
        """Repair the communicator and settle the operation that failed; collective.

        It returns when all survivors hold the same members and no one is ahead. A death on the
        way is part of the same recovery.

        Args:
            joinable: whether a newcomer can take part in the next attempt at this operation.
                Where all members say so and none has completed it, spares take the places of
                the dead. False by default.

        Returns:
            What was found and done; ``finished`` says whether the operation must be made again.

        Raises:
            UsageError: no operation has failed here.
            Unrecoverable: nobody is left who has the result, or who worked.
        """
        if self._log.failure is None:
            raise UsageError("recover() wants a PeerFailure before it. Received: no failure")
        return self.change_view(Purpose.FILL if joinable and self.world.reserve else Purpose.GO_ON)

    def agree_on(
        self,
        purpose: Purpose,
        why: str,
        *,
        until: Callable[[], bool],
        may_skip: bool = False,
        or_end: bool = True,
        on_change: Callable[[Recovery], None] = lambda recovery: None,
    ) -> bool:
        """Change views until all members came for *purpose*, or *until()* holds; collective.

        All survivors end a repair alike, also those who are still in the last operation and come
        through :meth:`recover`.

        Args:
            purpose: reason for which this rank comes.
            why: text of the failure that others see.
            until: tells, alike on all ranks that come for this, that no view change is wanted.
            may_skip: whether to go on without *purpose* where others are in the next operation
                already.
            or_end: whether this rank ends where its peers go on without it.
            on_change: function called after each view change.

        Returns:
            Whether they came; False, without *or_end*, where others keep making operations.
        """
        elsewhere = 0
        for _ in range(_VIEW_CHANGES):
            if until():
                return True
            self._log.leave_off(why)
            recovery = self.change_view(purpose)
            on_change(recovery)
            if recovery.met == purpose or (may_skip and recovery.together):
                return True
            elsewhere += recovery.together  # at the same operation, which this rank does not make
            if purpose in ELSEWHERE and elsewhere == _SURE:
                break
        if or_end:
            fail_stop(f"{why} while others still work: they go on without it")
        return False

    def change_view(self, purpose: Purpose) -> Recovery:
        """Repair the communicator of all, and go on with the next view; collective, with spares.

        Args:
            purpose: reason for which this rank comes.

        Returns:
            What was found and done.
        """
        self.hooks.before_recovery()
        before, log = self.world, self._log
        detect_time_s, operation = log.detect_time_s, log.done + 1
        change = ViewChange(
            purpose,
            vacant=self.vacant,
            world=before,
            log=log,
            working=self._working,
            size=len(self.hosts),
            arbiter=self.hooks.decide,
            kept=() if self._cold is None else self._cold.hosts,
            newcomer=self._newcomer if purpose == Purpose.ADMIT else None,
        )
        # Others may be in an operation that this rank does not come to, or not yet.
        passed = purpose in ELSEWHERE or (purpose == Purpose.FILL and log.out_of_step)
        interrupts = log.is_broken or passed
        if interrupts and self.handle is not self.whole and not self.handle.Is_revoked():
            self.handle.Revoke()
        # Who waits knows not what for, unless a place was vacant when it came.
        notice = log.is_broken or (purpose == Purpose.WAIT and not self._is_wanted)
        self._is_wanted = False
        with self.hooks.waiting():
            repair(
                self.whole,
                change.settle,
                point=self.hooks.recovery_point,
                part=self._part,
                await_notice=notice,
            )
        if self._cold is not None:
            self._cold.part(before.everyone)
        view = change.view
        assert view is not None
        if change.finished:
            log.complete(before)
        self._take_over(view, change)
        self._introduce_newcomer(view, change)
        living = (*view.members, *view.waiting)
        recovery = Recovery(
            operation=operation,
            finished=change.finished,
            lost=tuple(member for member in before.members if member.rank not in living),
            before=before,
            after=self.world,
            detect_time_s=detect_time_s,
            repaired_time_s=time.time(),
            replaced=tuple(zip(view.left, view.joined, strict=True)),
            met=view.met,
            together=view.together,
            admitted=() if change.admitted is None else (change.admitted,),
        )
        matters = recovery.lost or recovery.replaced or purpose in (Purpose.GO_ON, Purpose.FILL)
        if matters and not before.waits:
            self.hooks.recovered(recovery)
        return recovery

    def _watch_hosts(self) -> None:
        if self.ulfm and self.world.spread:
            self._silent_hosts.start()

    def _part(self) -> None:
        """Shut the connections to silent hosts, also those of cold spares on this host. Local."""
        if self.world.spread:
            self._silent_hosts.settle()
        if self._cold is not None:
            self._cold.part(self.world.everyone)

    def _take_over(self, view: View, change: ViewChange) -> None:
        before = self.world
        self.handle, self.whole, self._present = change.active, change.whole, change.present
        new = () if change.admitted is None else (change.admitted,)
        self.hosts |= {member.rank: member.host for member in new}
        self.world = before.of(view.members, view.waiting, new)
        self.vacant = view.vacant
        self._log.go_on(view, joins=before.waits)

    def _introduce_newcomer(self, view: View, change: ViewChange) -> None:
        """Tell the newcomer that all have admitted it, or end it; local, on its sponsor."""
        newcomer = self._newcomer
        if newcomer is None or view.met != Purpose.ADMIT:
            return
        if change.admitted is None:
            newcomer.give_up("a rank died while it was admitted")
            return
        newcomer.settle(self.world, view, self.hosts)
