"""Numbered collectives that can be replayed after a peer died.

Every rank counts the collectives it has completed (``done``). Each one makes its
members wait for each other, so when something breaks the survivors' counts
differ by at most one, and the operation in question is known to all:

* somebody completed it: its result, which includes what the dead contributed,
  is handed to those who did not;
* nobody did: all of them make it again, on the survivors.

Whoever needs the dead rank's *work* in the replayed operation asks
:attr:`Communicator.pending` who was expected to take part in it and who was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.errors import ClosedError, FtError, PeerFailure, Unrecoverable, UsageError
from ft.records import Pending, Recovery
from ft.repair import repair
from ft.world import World

__all__ = ["Numbered", "Operation"]


class Operation(NamedTuple):
    """One attempt at a collective: see :meth:`Communicator.attempt`."""

    result: np.ndarray
    call: Callable[[Any], object]
    valid: Callable[[], bool] = lambda: True


class Numbered:
    """Counts operations over the living ranks, and repairs after a death.

    ``waiting`` makes a context around every stretch in which this rank waits for
    others (:meth:`ft.Watchdog.waiting` fits); ``listeners`` hear of every recovery;
    ``before_recovery`` may end this rank instead (:meth:`ft.Watchdog.end_if_woken` fits);
    ``recovery_point`` is called inside each repair, for fault injection.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on.
        world: the members of *comm*, in its order.
    """

    def __init__(self, comm: Any, world: World) -> None:
        self._mpi = mpi.load()
        self._comm = comm
        self._world = world
        self._expected = world.ranks
        self._lost: frozenset[int] = frozenset()
        self._done = 0
        self._attempted = np.empty(0, np.uint8)
        self._result = np.empty(0, np.uint8)
        self._result_intact = True
        self._failure: PeerFailure | None = None
        self._detect_time_s = 0.0
        self._ulfm = mpi.has_ulfm()
        self.initial_size = world.size
        self._callers_fault = {
            getattr(self._mpi, f"ERR_{name}") for name in ("BUFFER", "COUNT", "TYPE", "OP", "ARG")
        }
        self._closed = False
        self._leaving = False
        self._all_leave = False
        self._invalid = 0
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
            operation=self._done + 1, expected=self._expected, lost=tuple(sorted(self._lost))
        )

    @property
    def handle(self) -> Any:
        """The MPI communicator in use; replaced by every repair. Local."""
        return self._comm

    # Operations.

    def attempt(
        self,
        result: np.ndarray,
        call: Callable[[Any], object],
        valid: Callable[[], bool] = lambda: True,
        *,
        computes: bool = False,
    ) -> None:
        """Run *call(comm)* as the next numbered operation, with *result* as its outcome.

        The seam for collectives made elsewhere (a native op). *call* must not
        return before every member has entered it. Afterwards *valid()* says whether
        *result* can be right; if not, the operation failed. A *call* that also
        *computes* is not a stretch of waiting for others.

        Raises:
            PeerFailure: it did not complete; or an earlier failure was not recovered.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died and there is no ULFM.
        """
        if self._closed:
            raise ClosedError("this communicator was left: no further operation is possible")
        if self._failure is not None:
            raise self._failure
        if not result.flags.c_contiguous:
            raise UsageError(
                f"collectives want contiguous buffers. Received: strides={result.strides}"
            )
        self._attempted = result
        try:
            with nullcontext() if computes else self.waiting():
                call(self._comm)
        except self._mpi.Exception as error:
            if error.Get_error_class() in self._callers_fault:
                raise UsageError(f"MPI refused the buffers of a collective: {error}") from error
            raise self._failed(str(error)) from error
        if not valid():
            self._invalid += 1
            if self._invalid > _DOUBTS:
                raise Unrecoverable(
                    f"operation {self._done + 1} must give a valid result within {_DOUBTS} "
                    "repetitions. Received: none; this MPI library computes wrongly, "
                    "try another one, or 'coll ^han'"
                )
            raise self._failed("its result is not valid")
        self._complete(result)

    def result_overwritten(self) -> None:
        """Say, inside the call of an attempt, that it writes over the result before it. Local.

        All members must be here by then: nobody needs that result. Should MPI have
        been wrong about this, as it can be when a rank dies, somebody else hands it over.
        """
        self._result_intact = False

    def _failed(self, cause: str) -> FtError:
        self._detect_time_s = time.time()
        if not self._ulfm:
            return Unrecoverable(_NO_ULFM)
        self._failure = PeerFailure(self._done + 1, cause)
        return self._failure

    def insist(self, make: Callable[[], Operation]) -> np.ndarray:
        """Attempt what *make()* gives, anew after each recovery, until it is complete.

        For operations whose input does not depend on the members; collective.
        Returns the result.
        """
        while True:
            operation = make()
            try:
                self.attempt(*operation)
                return operation.result
            except PeerFailure:
                if self.recover().finished:
                    return operation.result

    # Repair.

    def recover(self) -> Recovery:
        """Repair the communicator and settle the operation that failed; collective.

        Returns when all survivors hold the same members and no one is ahead. A
        death on the way is part of the same recovery.
        """
        if self._failure is None:
            raise UsageError("recover() wants a PeerFailure before it. Received: no failure")
        self.before_recovery()
        before, detect_time_s = self._world, self._detect_time_s
        operation = self._done + 1
        reports = np.empty((0, 5), np.int64)

        def settle(new: Any) -> None:
            nonlocal reports
            reports = np.zeros((new.Get_size(), 5), np.int64)
            mine = [before.rank, self._done, self._leaving, self._result_intact, _SEAL]
            new.Allgather(np.array(mine, np.int64), reports)
            if not (reports[:, -1] == _SEAL).all():  # a further death, reported as success
                raise self._mpi.Exception(self._mpi.ERR_OTHER)
            self._hand_over(new, done=reports[:, 1], intact=reports[:, 3])

        with self.waiting():
            comm = repair(
                self._comm, settle, point=self.recovery_point, await_notice=not self._leaving
            )
        newest = int(reports[:, 1].max())
        finished = newest == operation
        if finished:
            self._complete(self._attempted)
        self._comm = comm
        self._world = before.keeping(int(rank) for rank in reports[:, 0])
        lost = tuple(m for m in before.members if m.rank not in self._world.ranks)
        self._lost |= {member.rank for member in lost}
        self._failure = None
        self._all_leave = bool(reports[:, 2].all())
        recovery = Recovery(
            operation=operation,
            finished=finished,
            lost=lost,
            before=before,
            after=self._world,
            detect_time_s=detect_time_s,
            repaired_time_s=time.time(),
        )
        for listener in self.listeners if lost or not self._leaving else ():
            listener(recovery)
        return recovery

    def leave(self) -> None:
        """Wait for all living members, then finalise MPI; collective, once, the last call.

        Members that die meanwhile are left out. A rank that leaves while others
        still make operations ends itself: they would wait for it.
        """
        if self._closed:
            return
        self._leaving = True
        rounds = 0
        while self._ulfm and self._world.size > 1 and not self._all_leave:
            # A repair is the only meeting that all survivors end alike, also those
            # who are still in the last operation and come through recover().
            rounds += 1
            if rounds > _FAREWELLS:
                mpi.die("this rank came to its end while others still work: they go on without it")
            if self._failure is None:
                self._detect_time_s = time.time()
                self._failure = PeerFailure(self._done + 1, "this rank leaves")
            self.recover()
        self._closed = True
        mpi.finalize()

    def _complete(self, result: np.ndarray) -> None:
        self._done += 1
        self._invalid = 0
        self._result = result
        self._result_intact = True
        self._expected = self._world.ranks
        self._lost = frozenset()
        mpi.forget_exit()

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


# A result that is wrong because a peer died is right in the repetition.
_DOUBTS = 3

# What a report must end with, so that zeros in its place are not taken for one.
_SEAL = 0x6D61746578

# Survivors are at most one operation apart, so a second repair finds them all leaving;
# further ones are for deaths on the way.
_FAREWELLS = 20

_NO_ULFM = (
    "a peer died and cannot be left behind: in-place recovery wants an MPI with ULFM switched on "
    "(Open MPI 5 under 'mpiexec --with-ft ulfm', as 'matex run' does). "
    "Start again from the newest checkpoint"
)
