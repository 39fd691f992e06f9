"""Group membership: views of the members, changed after failures and to move, add or release ranks.

Every view change is a repair of the communicator of all ranks, spares included, because a repair
is the only call that ends alike on all survivors. Operations run among the members alone, on a
communicator of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ft import mpi
from ft.cold_spares import ColdSpares
from ft.errors import FtError
from ft.hooks import Hooks
from ft.invitation import Admission
from ft.newcomers import Newcomer
from ft.operation_log import OperationLog
from ft.process_end import fail_stop
from ft.records import Recovery
from ft.repair import repair
from ft.silent_hosts import SilentHosts
from ft.split_decision import other_hosts
from ft.view_change import Settled, ViewChange
from ft.views import ELSEWHERE, Purpose
from ft.world import Member, World

__all__ = ["Membership"]

# Survivors are at most one operation apart, so a second view change finds them all; further view
# changes are for deaths meanwhile.
_VIEW_CHANGES = 20
_SURE = 2


class Membership:
    """The living ranks, and the view changes after which they go on without dead ranks.

    ``handle`` is the communicator of the members, ``whole`` that of members and spares. ``vacant``
    are ranks that were lost and not replaced, and ranks in reserve for which a place was added.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on.
        world: the members of *comm*, in its order.
        log: operations of this rank, whose newest result each view change hands over.
        hooks: functions called at each view change.
        cold: cold spares of the run, whose hosts stay in use without ranks; equal on all ranks,
            None by default.
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
        self._working, self._adds_place = 0, True
        self._cold, self._log = cold, log
        self._newcomer: Newcomer | None = None
        self._silent_hosts = SilentHosts(lambda: other_hosts(self.world))
        self._is_wanted = self._is_in_repair = False  # is wanted: it waits, and a place is vacant

    def introduce(self, members: Sequence[Member]) -> None:
        """Set hosts and process ids of members that are known by rank only; local.

        Args:
            members: all ranks that have started, dead ranks included.
        """
        known = {member.rank: member for member in members}
        self.world = replace(
            self.world, members=tuple(known[member.rank] for member in self.world.members)
        )
        self.hosts = {rank: member.host for rank, member in known.items()}
        self._watch_hosts()

    def set_working(self, working: int) -> None:
        """Set the number of members that go on working when others are set aside; local.

        Args:
            working: number of members, equal on all ranks.
        """
        self._working = working

    def enter(self, admission: Admission) -> None:
        """Wait in reserve from now on; local, on a newcomer that all ranks have admitted.

        Args:
            admission: membership of this rank.
        """
        self.handle, self.whole = self._mpi.COMM_NULL, admission.whole
        self.world = admission.world
        self.hosts = dict(admission.hosts)
        self.vacant = admission.view.vacant
        self._is_wanted = bool(self.vacant)
        self._present = (*admission.view.members, *admission.view.waiting)
        self._watch_hosts()

    def admit(self, newcomer: Newcomer | None, *, adds_place: bool = True) -> Member | None:
        """Let a newcomer wait in reserve; collective over the members, with those in reserve.

        Args:
            newcomer: process that the leader sponsors; None on the other ranks.
            adds_place: whether one is added where no place is vacant, equal on all; by default so.

        Returns:
            The admitted member; None if the newcomer or its sponsor was lost.
        """
        self._newcomer, self._adds_place = newcomer, adds_place
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
        """Original ranks of dead members and spares, as far as MPI knows; local."""
        return [self._present[place] for place in mpi.failed_ranks(self.whole)]

    def recover(self, *, joinable: bool = False) -> Recovery:
        """Repair the communicator and settle the operation that failed; collective.

        It returns when all survivors have the same members and have completed the same operations.
        A death meanwhile is part of the same recovery.

        Args:
            joinable: whether a newcomer can take part in the next attempt at this operation. If all
                members pass True and none has completed the operation, spares take the places of
                dead ranks. False by default.

        Returns:
            The view change; ``finished`` is False if the operation must be made again.

        Raises:
            UsageError: no operation failed here, or its buffers had other sizes on other ranks.
            Unrecoverable: no survivor has the result, or no working rank is left.
        """
        self._log.must_have_failed()
        purpose = Purpose.FILL if joinable and self.world.spares else Purpose.RECOVER
        recovery = self.change_view(purpose)
        self._log.refuse_unequal()
        return recovery

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
        """Change views until all members came for *purpose* or *until()* is true; collective.

        All survivors leave a repair together, including ranks that are still in the last operation
        and come through :meth:`recover`.

        Args:
            purpose: reason for which this rank comes to the repair.
            why: message of the failure that other ranks see.
            until: function, equal on all ranks that come for *purpose*, that returns whether no
                view change is needed.
            may_skip: whether to go on without *purpose* if other ranks are in the next operation
                already.
            or_end: whether this rank ends itself if its peers go on without it.
            on_change: function called after each view change.

        Returns:
            True if they came; False, without *or_end*, if other ranks keep making operations, or
            if this rank left a repair by an exception: the others are still in it.
        """
        elsewhere = 0
        for _ in range(0 if self._is_in_repair else _VIEW_CHANGES):
            if until():
                return True
            self._log.leave_off(why)
            recovery = self.change_view(purpose)
            on_change(recovery)
            if recovery.agreed_purpose == purpose or (may_skip and recovery.at_same_operation):
                return True
            elsewhere += recovery.at_same_operation  # which this rank does not make
            if purpose in ELSEWHERE and elsewhere == _SURE:
                break
        if or_end:
            fail_stop(f"{why} while others still work: they go on without it")
        return False

    def change_view(self, purpose: Purpose) -> Recovery:
        """Repair the communicator of all ranks and install the next view; collective, with spares.

        Args:
            purpose: reason for which this rank comes to the repair.

        Returns:
            The view change.
        """
        self.hooks.before_recovery()
        before, log = self.world, self._log
        change = ViewChange(
            purpose,
            vacant=self.vacant,
            world=before,
            log=log,
            working=self._working,
            size=len(self.hosts),
            arbiter=self.hooks.decide,
            kept=() if self._cold is None else self._cold.machines,
            newcomer=self._newcomer if purpose == Purpose.ADMIT else None,
            adds_place=self._adds_place,
        )
        # Other ranks may be in an operation that this rank does not take part in, or not yet.
        passed = purpose in ELSEWHERE or (purpose == Purpose.FILL and log.out_of_step)
        interrupts = log.is_broken or passed  # never on a rank in reserve, which has no handle
        if interrupts and self.handle is not self.whole and not self.handle.Is_revoked():
            self.handle.Revoke()
        # A spare does not know why a repair happens, unless a place was vacant when it came.
        notice = log.is_broken or (purpose == Purpose.WAIT and not self._is_wanted)
        self._is_wanted = False
        settled = self._repaired(change, await_notice=notice)
        if self._cold is not None:
            self._cold.shut_silent(before.everyone)
        if settled.finished:
            log.complete(before)
        self._take_over(settled)
        self._introduce_newcomer(settled)
        recovery = change.recovery(settled, self.world)
        matters = recovery.lost or recovery.replaced or purpose in (Purpose.RECOVER, Purpose.FILL)
        if matters and not before.is_spare:
            self.hooks.recovered(recovery)
        return recovery

    def _repaired(self, change: ViewChange, *, await_notice: bool) -> Settled:
        """Outcome of the repair for *change*; an exception of a hook's ends the membership."""
        if self._is_in_repair:
            fail_stop("this rank left a repair by an exception, and the others are still in it")
        self._is_in_repair = True
        point, shut_silent = self.hooks.recovery_point, self._shut_silent
        with self.hooks.waiting():
            try:
                settled = repair(
                    self.whole,
                    change.settle,
                    point=point,
                    shut_silent=shut_silent,
                    await_notice=await_notice,
                )
            except FtError:  # all ranks leave the repair by it
                self._is_in_repair = False
                raise
        self._is_in_repair = False
        return settled

    def _watch_hosts(self) -> None:
        if self.ulfm and self.world.spread:
            self._silent_hosts.start()

    def _shut_silent(self) -> None:
        """Shut the connections to silent hosts, also those of this host's cold spares. Local."""
        if self.world.spread:
            self._silent_hosts.disconnect_silent()
        if self._cold is not None:
            self._cold.shut_silent(self.world.everyone)

    def _take_over(self, settled: Settled) -> None:
        before, view, present = self.world, settled.view, settled.present
        self.handle, self.whole, self._present = settled.active, settled.whole, present
        new = () if settled.admitted is None else (settled.admitted,)
        self.hosts |= {member.rank: member.host for member in new}
        self.world = before.of(view.members, view.waiting, new)
        self.vacant = view.vacant
        died = any(rank not in present for rank in before.ranks)
        self._log.go_on(view, joins=before.is_spare, died=died)

    def _introduce_newcomer(self, settled: Settled) -> None:
        """Tell the newcomer that it is admitted, or end it; local, on its sponsor."""
        if (newcomer := self._newcomer) is None or settled.view.agreed_purpose != Purpose.ADMIT:
            return
        if settled.admitted is None:
            newcomer.give_up("a rank died while it was admitted")
        else:
            newcomer.introduce(self.world, settled.view, self.hosts)
