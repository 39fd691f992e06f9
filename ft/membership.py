"""Group membership: views of who takes part, changed after a failure, to change places, to leave.

Every view change is a repair of the communicator of all, spares among them, for a repair is the
only call that all survivors end alike. Operations are the members' alone, on a communicator of
their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ft import mpi
from ft.errors import PeerFailure, Unrecoverable, UsageError
from ft.parting import must_be_sealed, part_from_silent, stay_one
from ft.quorum import Arbiter, no_arbiter
from ft.records import Pending, Recovery
from ft.repair import repair
from ft.views import SEAL, Purpose, View, next_view
from ft.world import World

__all__ = ["Membership"]


class Membership:
    """The living ranks, and the repairs by which they go on without the dead.

    ``arbiter`` is asked where not all ranks are on one host and those who came to a repair are
    not the larger part, see :mod:`ft.quorum`. ``waiting`` makes a context around every stretch in
    which this rank waits for others (:meth:`ft.Watchdog.waiting` fits); ``listeners`` hear of
    every recovery; ``before_recovery`` may end this rank instead
    (:meth:`ft.Watchdog.end_if_woken` fits); ``recovery_point`` is called inside each repair, for
    fault injection. ``hosts`` are those of all original ranks that have met, the dead too: equal
    on all.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on.
        world: the members of *comm*, in its order.
    """

    def __init__(self, comm: Any, world: World) -> None:
        self._mpi = mpi.load()
        self._comm = self._whole = comm  # of the members; of those in reserve, too
        self._world = world
        self._expected = world.ranks
        self._lost: frozenset[int] = frozenset()
        self._present = world.ranks  # in the order of that communicator
        self._vacant: tuple[int, ...] = ()
        self._keep = 0
        self._has_failed = False
        self._repairs = 0
        self._out_of_step = False  # at the last view change, with no operation completed since
        self._done = 0
        self._attempted = np.empty(0, np.uint8)
        self._result = np.empty(0, np.uint8)
        self._result_intact = True
        self._untouched = True  # whether who attempted it leaves the result alone
        self._copy = np.empty(0, np.uint8)
        self._failure: PeerFailure | None = None
        self._detect_time_s = 0.0
        self._ulfm = mpi.has_ulfm()
        self.initial_size = world.size
        self.hosts = {member.rank: member.host for member in world.members}
        self._closed = False
        self._invalid = 0
        self.arbiter: Arbiter = no_arbiter
        self.before_recovery: Callable[[], None] = lambda: None
        self.recovery_point: Callable[[], None] = lambda: None
        self.waiting: Callable[[], AbstractContextManager[object]] = nullcontext
        self.listeners: list[Callable[[Recovery], None]] = []

    # What is known here, without communication.

    @property
    def world(self) -> World:
        """The living members as of the last repair. Local."""
        return self._world

    @property
    def done(self) -> int:
        """How many operations completed here. Local."""
        return self._done

    @property
    def ulfm(self) -> bool:
        """Whether the death of a peer can be survived in place. Local."""
        return self._ulfm

    @property
    def failure(self) -> PeerFailure | None:
        """The failure that :meth:`recover` has not yet dealt with, if any. Local."""
        return self._failure

    @property
    def pending(self) -> Pending:
        """Whose work the next operation is made of. Local, and equal on all ranks."""
        return Pending(
            operation=self._done + 1,
            expected=self._expected,
            lost=tuple(sorted(self._lost)),
            out_of_step=self._out_of_step,
            repairs=self._repairs,
        )

    @property
    def handle(self) -> Any:
        """The MPI communicator in use; replaced by every repair. Local."""
        return self._comm

    # Membership.

    def recover(self, *, joinable: bool = False) -> Recovery:
        """Repair the communicator and settle the operation that failed; collective.

        Returns when all survivors hold the same members and no one is ahead. A
        death on the way is part of the same recovery.

        Args:
            joinable: a newcomer can take part in the next attempt at this operation: where all
                members say so and none has completed it, spares take the places of the dead.
        """
        if self._failure is None:
            raise UsageError("recover() wants a PeerFailure before it. Received: no failure")
        return self._change_view(
            Purpose.FILL if joinable and self._world.reserve else Purpose.GO_ON
        )

    def _agree_on(
        self,
        purpose: Purpose,
        why: str,
        *,
        until: Callable[[], bool],
        needless: bool = False,
        heard: Callable[[Recovery], None] = lambda recovery: None,
    ) -> None:
        """Change views as :meth:`_try_agree_on`, or end this rank if its peers go on without it."""
        if not self._try_agree_on(purpose, why, until=until, needless=needless, heard=heard):
            mpi.fail_stop(f"{why} while others still work: they go on without it")

    def _try_agree_on(
        self,
        purpose: Purpose,
        why: str,
        *,
        until: Callable[[], bool],
        needless: bool = False,
        heard: Callable[[Recovery], None] = lambda recovery: None,
    ) -> bool:
        """Change views until all members came for *purpose*, or *until()* holds; collective.

        All survivors end a repair alike, also those who are still in the last operation and come
        through :meth:`recover`.

        Args:
            needless: do without, where others turn out to be in the next operation already.

        Returns:
            Whether they came; False where others keep making operations.
        """
        elsewhere = 0
        for _ in range(_VIEW_CHANGES):
            if until():
                return True
            if self._failure is None:
                self._detect_time_s = time.time()
                self._failure = PeerFailure(self._done + 1, why)
            recovery = self._change_view(purpose)
            heard(recovery)
            if recovery.met == purpose or (needless and recovery.together):
                return True
            elsewhere += recovery.together  # at the same operation, which this rank does not make
            if purpose in _ELSEWHERE and elsewhere == _SURE:
                break
        return False

    def _change_view(self, purpose: Purpose) -> Recovery:
        """Repair the communicator of all, and go on with the next view; collective, with spares.

        Args:
            purpose: what this rank comes for.
        """
        self.before_recovery()
        before, detect_time_s = self._world, self._detect_time_s
        operation = self._done + 1
        active: Any = None
        present: tuple[int, ...] = ()
        view: View | None = None
        finished = False

        def settle(new: Any) -> None:
            nonlocal active, present, view, finished
            reports = np.zeros((new.Get_size(), 5), np.int64)
            mine = [before.rank, self._done, purpose, self._result_intact, SEAL]
            new.Allgather(np.array(mine, np.int64), reports)
            must_be_sealed(reports[:, -1])
            came = {int(row[0]): row for row in reports}
            present = tuple(came)
            working = [came[rank] for rank in before.ranks if rank in came]
            if not working:
                raise Unrecoverable(_NOBODY_WORKS)
            stay_one(new, before, present, self.arbiter)
            newest = int(max(row[1] for row in working))
            finished = not before.waits and newest == operation
            if not before.waits:
                view = self._next_view(reports, newest)
            if before.reserve:
                view = self._received_view(new, view, source=present.index(int(working[0][0])))
            assert view is not None
            active = self._communicator_of(new, present, view.members)
            if view.met not in _NEWCOMERS and before.rank in view.members:
                rows = np.array([came[rank] for rank in view.members])
                self._hand_over(active, done=rows[:, 1], intact=rows[:, 3])

        # Others may be in an operation that this rank does not come to, or not yet.
        passed = purpose in _ELSEWHERE or (purpose == Purpose.FILL and self._out_of_step)
        interrupts = self._has_failed or passed
        if interrupts and self._comm is not self._whole and not self._comm.Is_revoked():
            self._comm.Revoke()
        notice = self._has_failed or purpose == Purpose.WAIT  # who waits knows not what for
        with self.waiting():
            whole = repair(
                self._whole,
                settle,
                point=self.recovery_point,
                part=lambda: part_from_silent(before),
                await_notice=notice,
            )
        assert view is not None
        if finished:
            self._complete(self._attempted)
        self._comm, self._whole, self._present = active, whole, present
        self._world = before.of(view.members, view.waiting)
        self._expected, self._lost = view.expected, frozenset(view.lost)
        self._vacant = view.vacant
        if before.waits:
            self._done = view.done
        self._failure = None
        self._has_failed = False
        self._out_of_step = not view.together
        living = (*view.members, *view.waiting)
        recovery = Recovery(
            operation=operation,
            finished=finished,
            lost=tuple(member for member in before.members if member.rank not in living),
            before=before,
            after=self._world,
            detect_time_s=detect_time_s,
            repaired_time_s=time.time(),
            replaced=tuple(zip(view.left, view.joined, strict=True)),
            met=view.met,
            together=view.together,
        )
        told = recovery.lost or recovery.replaced or purpose in (Purpose.GO_ON, Purpose.FILL)
        for listener in self.listeners if told and not before.waits else ():
            listener(recovery)
        return recovery

    def _next_view(self, reports: np.ndarray, newest: int) -> View:
        """Next view, from the *reports* of those who came, on a rank that works."""
        world = self._world
        behind = self._done < newest  # the result will be handed over
        before = View(
            met=Purpose.GO_ON,
            done=newest,
            members=world.ranks,
            waiting=tuple(member.rank for member in world.reserve),
            expected=world.ranks if behind else self._expected,
            lost=() if behind else tuple(self._lost),
            vacant=self._vacant,
        )
        came = {int(row[0]): Purpose(int(row[2])) for row in reports}
        done = {int(row[1]) for row in reports if int(row[0]) in world.ranks}
        return next_view(before, came, together=len(done) == 1, keep=self._keep)

    def _received_view(self, new: Any, view: View | None, *, source: int) -> View:
        """View of the working rank at *source*, which those who wait receive, too."""
        blank = View(met=Purpose.WAIT, done=0, members=(), expected=())
        packed = (view or blank).pack(self.initial_size)
        if view is None:
            packed[:] = 0
        new.Bcast(packed, root=source)
        try:
            return View.unpack(packed)
        except ValueError:  # the death of a rank, reported as success
            raise self._mpi.Exception(self._mpi.ERR_OTHER) from None

    def _communicator_of(self, new: Any, present: tuple[int, ...], members: tuple[int, ...]) -> Any:
        """Communicator of *members*, in their order, among those *present* in *new*."""
        if present == members:
            return new
        if self._world.rank not in members:
            return self._mpi.COMM_NULL
        group = new.Get_group().Incl([present.index(rank) for rank in members])
        return new.Create_group(group)

    def _complete(self, result: np.ndarray) -> None:
        self._done += 1
        self._invalid = 0
        self._result = result if self._untouched else self._copied(result)
        self._result_intact = True
        self._expected = self._world.ranks
        self._lost = frozenset()
        self._out_of_step = False
        self._repairs = self._world.generation
        mpi.forget_exit()

    def _copied(self, result: np.ndarray) -> np.ndarray:
        """The bytes of *result*, for a peer that may need it while its owner writes over it.

        In one buffer: who has completed an operation knows that all have the one before.
        """
        if self._world.size + len(self._world.reserve) == 1:
            return self._copy
        if self._copy.size < result.nbytes:
            self._copy = np.empty(result.nbytes, np.uint8)
        copy = self._copy[: result.nbytes]
        np.copyto(copy, result.reshape(-1).view(np.uint8))
        return copy.view(result.dtype).reshape(result.shape)

    def _hand_over(self, new: Any, *, done: np.ndarray, intact: np.ndarray) -> None:
        """Give the result of the newest complete operation to those who miss it."""
        newest = int(done.max())
        if int(done.min()) == newest:
            return
        if newest - int(done.min()) > 1:
            raise Unrecoverable(
                "survivors may be one operation apart, not more: they did not make the same calls. "
                f"Received: completed={done.tolist()}"
            )
        holders = np.flatnonzero((done == newest) & (intact != 0))
        if not holders.size:
            raise Unrecoverable(
                f"the result of operation {newest} must be with a survivor who completed it. "
                "Received: none that has not been written over; start from the newest checkpoint"
            )
        # The ahead ones keep what they have: a transient copy, not their live buffer, takes part.
        mine = self._attempted if self._done < newest else np.array(self._result, copy=True)
        new.Bcast(mine, root=int(holders[0]))


# Survivors are at most one operation apart, so a second view change finds them all there;
# further ones are for deaths on the way.
_VIEW_CHANGES = 20
_SURE = 2

# After these some members have no part in what was done before.
_NEWCOMERS = (Purpose.FILL, Purpose.RETURN, Purpose.CLOSE)

# Who comes for these does not make the operation that others may be in.
_ELSEWHERE = (Purpose.CLOSE, Purpose.LEAVE, Purpose.REGROUP)

_NOBODY_WORKS = (
    "all ranks that worked are gone, and those in reserve have nothing to go on from. "
    "Start again from the newest checkpoint"
)
