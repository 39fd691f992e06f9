"""One view change: the steps of every survivor on the repaired communicator."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ft import mpi
from ft.connecting import connected
from ft.errors import Unrecoverable
from ft.newcomers import Newcomer
from ft.operation_log import OperationLog
from ft.quorum import Arbiter
from ft.records import Recovery
from ft.split_decision import end_unless_only_world, must_be_sealed
from ft.views import NEWCOMERS, SEAL, Purpose, View, next_view
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["Settled", "ViewChange"]

_NOBODY_WORKS = (
    "all ranks that worked are gone, and those in reserve have nothing to go on from. "
    "Start again from the newest checkpoint"
)


@dataclass(frozen=True, kw_only=True)
class Settled:
    """Result of a view change on one rank, once it has settled on all ranks.

    Attributes:
        view: next view, equal on all ranks.
        whole: communicator of all present ranks: the repaired one, or one that also contains the
            admitted newcomer; an ``mpi4py.MPI.Comm``.
        active: communicator of the members, in their order; COMM_NULL on spares.
        present: original ranks of the processes in ``whole``, in its order.
        finished: whether the operation that failed on this rank is now complete, with its result in
            the buffer of the attempt.
        admitted: newcomer that waits in reserve from now on; None if there is none.
    """

    view: View
    whole: Any
    active: Any
    present: tuple[int, ...]
    finished: bool
    admitted: Member | None = None


class ViewChange:
    """Computes the next view and its communicator from reports; repeatable if another rank dies.

    Args:
        purpose: reason for which this rank comes to the repair.
        vacant: ranks that were lost and not replaced.
        world: members and spares as this rank knows them.
        log: operations of this rank.
        working: number of members that go on working, with ``Purpose.SET_ASIDE``.
        size: number of original ranks so far.
        arbiter: function that decides if the present ranks cannot know whether they may go on.
        kept: machines that stay in use without ranks; none by default.
        newcomer: process that this rank sponsors and that all ranks are to admit, with
            ``Purpose.ADMIT``; None on all other ranks.
        adds_place: whether a place is added for it where none is vacant, equal on all members; True
            by default.
    """

    def __init__(
        self,
        purpose: Purpose,
        *,
        vacant: tuple[int, ...],
        world: World,
        log: OperationLog,
        working: int,
        size: int,
        arbiter: Arbiter,
        kept: Container[tuple[str, str]] = (),
        newcomer: Newcomer | None = None,
        adds_place: bool = True,
    ) -> None:
        self._mpi = mpi.load()
        self._purpose = purpose
        self._vacant = vacant
        self._world = world
        self._log = log
        self._working = working
        self._size = size
        self._arbiter = arbiter
        self._kept = kept
        self._newcomer = newcomer
        self._adds_place = adds_place
        self._may_admit = True
        self._detect_time_s, self._operation = log.detect_time_s, log.done + 1

    def settle(self, new: Any) -> Settled:
        """Agree on the next view, and send the newest result to members that lack it.

        Collective over *new*. It changes nothing but the attempt's buffer of a rank that is behind,
        so it can be repeated after a failure.

        Args:
            new: the repaired communicator of all, an ``mpi4py.MPI.Comm``.

        Raises:
            Unrecoverable: on all ranks, if no working rank is left or no member has the result.
        """
        world, log = self._world, self._log
        mine = [world.rank, log.done, self._purpose, log.is_intact, *log.sizes, SEAL]
        reports = np.zeros((new.Get_size(), len(mine)), np.int64)
        new.Allgather(np.array(mine, np.int64), reports)
        must_be_sealed(reports[:, -1])
        came = {int(row[0]): row for row in reports}
        present = tuple(came)
        working = [came[rank] for rank in world.ranks if rank in came]
        if not working:
            raise Unrecoverable(_NOBODY_WORKS)
        end_unless_only_world(new, world, present, self._arbiter, kept=self._kept)
        newest = int(max(row[1] for row in working))
        view = None if world.is_spare else self._next_view(reports, newest)
        if world.spares:
            view = self._received_view(new, view, source=present.index(int(working[0][0])))
        assert view is not None
        settled = Settled(
            view=view,
            whole=new,
            active=self._communicator_of(view.members, new, present),
            present=present,
            finished=not world.is_spare and newest == log.done + 1,
        )
        if view.agreed_purpose not in NEWCOMERS and world.rank in view.members:
            rows = np.array([came[rank] for rank in view.members])
            log.hand_over(settled.active, done=rows[:, 1], intact=rows[:, 3], sizes=rows[:, 4:6])
        if view.agreed_purpose == Purpose.ADMIT and self._may_admit:
            self._may_admit = False
            return self._admitting(settled)
        return settled

    def recovery(self, settled: Settled, after: World) -> Recovery:
        """Record of this view change.

        Args:
            settled: result of the view change.
            after: members and spares from now on.
        """
        view, before = settled.view, self._world
        living = (*view.members, *view.waiting)
        return Recovery(
            operation=self._operation,
            finished=settled.finished,
            lost=tuple(member for member in before.members if member.rank not in living),
            before=before,
            after=after,
            detect_time_s=self._detect_time_s,
            repaired_time_s=time.time(),
            replaced=tuple(zip(view.left, view.joined, strict=True)),
            agreed_purpose=view.agreed_purpose,
            at_same_operation=view.at_same_operation,
            admitted=() if settled.admitted is None else (settled.admitted,),
        )

    def _admitting(self, settled: Settled) -> Settled:
        """Result with the leader's newcomer connected with all ranks, if there is a newcomer.

        If no place is vacant for it, one may be added, and the number of members grows. If a rank
        dies meanwhile, the next attempt at this view change leaves the newcomer out.
        """
        view, present, new = settled.view, settled.present, settled.whole
        leader, newcomer = present.index(min(view.members)), self._newcomer
        coming = newcomer.member if newcomer is not None else None
        mine = encode_member(coming or self._world.me)
        row = np.zeros(3 + mine.size // 8, np.int64)
        if new.Get_rank() == leader:
            row[:3] = coming is not None, coming.rank if coming is not None else 0, SEAL
            row[3:] = mine.view(np.int64)
        new.Bcast(row, root=leader)
        must_be_sealed(row[2:3])
        if not row[0]:
            return settled
        rank = int(row[1])
        connect = connected if newcomer is None else newcomer.connected
        waiting = (*view.waiting, rank)
        own = (rank,) if self._adds_place and len(view.vacant) < len(waiting) else ()
        return replace(
            settled,
            whole=connect(new, leader),
            admitted=decode_member(rank, row[3:].view(np.uint8)),
            present=(*present, rank),
            view=replace(view, waiting=waiting, vacant=(*view.vacant, *own)),
        )

    def _next_view(self, reports: np.ndarray, newest: int) -> View:
        """Next view, from the *reports* of all present ranks; on a working rank."""
        world, log = self._world, self._log
        behind = log.done < newest  # the result will be handed over
        before = View(
            agreed_purpose=Purpose.RECOVER,
            done=newest,
            members=world.ranks,
            waiting=tuple(member.rank for member in world.spares),
            expected=world.ranks if behind else log.participants,
            lost=() if behind else log.lost,
            vacant=self._vacant,
        )
        came = {int(row[0]): Purpose(int(row[2])) for row in reports}
        done = {int(row[1]) for row in reports if int(row[0]) in world.ranks}
        return next_view(before, came, at_same_operation=len(done) == 1, working=self._working)

    def _received_view(self, new: Any, view: View | None, *, source: int) -> View:
        """View of the working rank at *source*, broadcast to all ranks, spares included."""
        blank = View(agreed_purpose=Purpose.WAIT, done=0, members=(), expected=())
        packed = (view or blank).pack(self._size)
        if view is None:
            packed[:] = 0
        new.Bcast(packed, root=source)
        try:
            return View.unpack(packed)
        except ValueError:  # MPI reported a rank's death as success
            raise self._mpi.Exception(self._mpi.ERR_OTHER) from None

    def _communicator_of(self, members: tuple[int, ...], new: Any, present: tuple[int, ...]) -> Any:
        """Communicator of *members*, in their order, made from *new* of the *present* ranks."""
        if present == members:
            return new
        if self._world.rank not in members:
            return self._mpi.COMM_NULL
        group = new.Get_group().Incl([present.index(rank) for rank in members])
        return new.Create_group(group)
