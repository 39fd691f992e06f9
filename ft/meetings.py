"""Who takes part, and how they come together: after a failure, to change places, to leave.

Every such meeting is a repair of the communicator of all, those in reserve among them, for
it is the only one that all survivors end alike. Operations are the members' alone, on a
communicator of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ft import mpi
from ft.errors import PeerFailure, Unrecoverable, UsageError
from ft.parting import must_be_sealed, stay_one
from ft.quorum import Arbiter, no_arbiter
from ft.records import Pending, Recovery
from ft.repair import repair
from ft.spares import SEAL, Charter, Purpose, convene
from ft.world import World

__all__ = ["Meetings"]


class Meetings:
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
        self._apart = False  # in the last meeting, with no operation completed since
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
            apart=self._apart,
            repairs=self._repairs,
        )

    @property
    def handle(self) -> Any:
        """The MPI communicator in use; replaced by every repair. Local."""
        return self._comm

    # Meetings.

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
        return self._meet(Purpose.FILL if joinable and self._world.reserve else Purpose.GO_ON)

    def _convene(
        self,
        purpose: Purpose,
        why: str,
        *,
        until: Callable[[], bool],
        needless: bool = False,
        heard: Callable[[Recovery], None] = lambda recovery: None,
    ) -> None:
        """Meet as :meth:`_gather` does; a rank whose peers keep making operations ends itself."""
        if not self._gather(purpose, why, until=until, needless=needless, heard=heard):
            mpi.die(f"{why} while others still work: they go on without it")

    def _gather(
        self,
        purpose: Purpose,
        why: str,
        *,
        until: Callable[[], bool],
        needless: bool = False,
        heard: Callable[[Recovery], None] = lambda recovery: None,
    ) -> bool:
        """Meet until all members came for *purpose*, or *until()* holds; collective.

        A repair is the only meeting that all survivors end alike, also those who are still
        in the last operation and come through :meth:`recover`.

        Args:
            needless: do without, where others turn out to be in the next operation already.

        Returns:
            Whether they came; False where others keep making operations.
        """
        apart = 0
        for _ in range(_MEETINGS):
            if until():
                return True
            if self._failure is None:
                self._detect_time_s = time.time()
                self._failure = PeerFailure(self._done + 1, why)
            recovery = self._meet(purpose)
            heard(recovery)
            if recovery.met == purpose or (needless and recovery.together):
                return True
            apart += recovery.together  # at the same operation, which this rank does not make
            if purpose in _ELSEWHERE and apart == _SURE:
                break
        return False

    def _meet(self, purpose: Purpose) -> Recovery:
        """Come together for *purpose*; collective, with those in reserve."""
        self.before_recovery()
        before, detect_time_s = self._world, self._detect_time_s
        operation = self._done + 1
        active: Any = None
        present: tuple[int, ...] = ()
        charter: Charter | None = None
        finished = False

        def settle(new: Any) -> None:
            nonlocal active, present, charter, finished
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
                charter = self._charter(reports, newest)
            if before.reserve:
                charter = self._told(new, charter, source=present.index(int(working[0][0])))
            assert charter is not None
            active = self._made_of(new, present, charter.members)
            if charter.met not in _NEWCOMERS and before.rank in charter.members:
                rows = np.array([came[rank] for rank in charter.members])
                self._hand_over(active, done=rows[:, 1], intact=rows[:, 3])

        # Others may be in an operation that this rank does not come to, or not yet.
        passed = purpose in _ELSEWHERE or (purpose == Purpose.FILL and self._apart)
        interrupts = self._has_failed or passed
        if interrupts and self._comm is not self._whole and not self._comm.Is_revoked():
            self._comm.Revoke()
        notice = self._has_failed or purpose == Purpose.WAIT  # who waits knows not what for
        with self.waiting():
            whole = repair(self._whole, settle, point=self.recovery_point, await_notice=notice)
        assert charter is not None
        if finished:
            self._complete(self._attempted)
        self._comm, self._whole, self._present = active, whole, present
        self._world = before.of(charter.members, charter.waiting)
        self._expected, self._lost = charter.expected, frozenset(charter.lost)
        self._vacant = charter.vacant
        if before.waits:
            self._done = charter.done
        self._failure = None
        self._has_failed = False
        self._apart = not charter.together
        living = (*charter.members, *charter.waiting)
        recovery = Recovery(
            operation=operation,
            finished=finished,
            lost=tuple(member for member in before.members if member.rank not in living),
            before=before,
            after=self._world,
            detect_time_s=detect_time_s,
            repaired_time_s=time.time(),
            replaced=tuple(zip(charter.left, charter.joined, strict=True)),
            met=charter.met,
            together=charter.together,
        )
        told = recovery.lost or recovery.replaced or purpose in (Purpose.GO_ON, Purpose.FILL)
        for listener in self.listeners if told and not before.waits else ():
            listener(recovery)
        return recovery

    def _charter(self, reports: np.ndarray, newest: int) -> Charter:
        """What the meeting of those who sent *reports* comes to, on a rank that works."""
        world = self._world
        behind = self._done < newest  # the result will be handed over
        before = Charter(
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
        return convene(before, came, together=len(done) == 1, keep=self._keep)

    def _told(self, new: Any, charter: Charter | None, *, source: int) -> Charter:
        """The charter of the working rank at *source*, for those who wait, too."""
        blank = Charter(met=Purpose.WAIT, done=0, members=(), expected=())
        packed = (charter or blank).pack(self.initial_size)
        if charter is None:
            packed[:] = 0
        new.Bcast(packed, root=source)
        try:
            return Charter.unpack(packed)
        except ValueError:  # the death of a rank, reported as success
            raise self._mpi.Exception(self._mpi.ERR_OTHER) from None

    def _made_of(self, new: Any, present: tuple[int, ...], members: tuple[int, ...]) -> Any:
        """The communicator of *members*, in their order, among those *present* in *new*."""
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
        self._apart = False
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


# Survivors are at most one operation apart, so a second meeting finds them all there;
# further ones are for deaths on the way.
_MEETINGS = 20
_SURE = 2

# After these some members have no part in what was done before.
_NEWCOMERS = (Purpose.FILL, Purpose.RETURN, Purpose.CLOSE)

# Who comes for these does not make the operation that others may be in.
_ELSEWHERE = (Purpose.CLOSE, Purpose.LEAVE, Purpose.REGROUP)

_NOBODY_WORKS = (
    "all ranks that worked are gone, and those in reserve have nothing to go on from. "
    "Start again from the newest checkpoint"
)
