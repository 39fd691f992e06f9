"""Numbered collectives that can be replayed after a peer has died.

After a failure the survivors' counts differ by at most one (:mod:`ft.operation_log`):

* some rank completed the operation: its result, which includes the dead rank's contribution,
  is sent to the ranks that lack it;
* no rank did: all of them make the operation again, among the survivors.

A caller that needs the dead rank's *work* in the replayed operation learns from
:attr:`ft.Communicator.pending` which ranks were expected in it and which died.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ft import mpi
from ft.errors import ClosedError, FtError, PeerFailure, Unrecoverable, UsageError
from ft.interruption import Interruption
from ft.membership import Membership
from ft.operation_log import OperationLog
from ft.process_end import fail_stop
from ft.views import Purpose

__all__ = ["Operation", "Operations"]

# A result that is wrong because a peer died is right when the operation is repeated.
_DOUBTS = 3

_LEFT = "this communicator was left: no further operation is possible"

_NO_ULFM = (
    "a peer died and cannot be left behind: in-place recovery wants an MPI with ULFM switched on "
    "(Open MPI 5 under 'mpiexec --with-ft ulfm', as 'matex run' does). "
    "Start again from the newest checkpoint"
)


class Operation(NamedTuple):
    """One attempt at a collective.

    Args:
        result: contiguous array for the result.
        call: function of the MPI communicator; it must not return before every member has entered
            it.
        valid: local function that returns whether *result* can be right; if not, the operation
            failed. Always True by default.
        untouched: promise of the caller not to write to *result* before the next operation is
            complete, because a peer may still need it. Without the promise a copy is kept for the
            peer. False by default.
    """

    result: np.ndarray
    call: Callable[[Any], object]
    valid: Callable[[], bool] = lambda: True
    untouched: bool = False


class _Left:
    """Stands in place of MPI's communicators after they are gone: a call would end the process."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ClosedError(_LEFT)


class Operations:
    """Runs numbered operations among the members, repeats them, and ends them together.

    Args:
        membership: members and spares of the run.
        log: count and results of this rank.
    """

    def __init__(self, membership: Membership, log: OperationLog) -> None:
        self._mpi = mpi.load()
        self._membership = membership
        self._log = log
        self._interruption = Interruption()
        self._interrupts = membership.ulfm and mpi.takes_threads()
        self._closed = False

    def attempt(self, operation: Operation, *, computes: bool = False) -> None:
        """Run *operation* as the next numbered operation; collective.

        It is also the entry for collectives made elsewhere (a native op). After a failure the
        result is undefined.

        Args:
            operation: the call and its result buffer.
            computes: whether the call also computes, so that its time is not all spent waiting for
                other ranks. False by default.

        Raises:
            PeerFailure: the operation did not complete; or an earlier failure was not recovered.
            UsageError: the result is not contiguous, or this rank is in reserve.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died without ULFM; or repetitions give no valid result.
        """
        membership, log = self._membership, self._log
        if self._closed:
            raise ClosedError(_LEFT)
        if membership.world.is_spare:
            raise UsageError("operations are for members. Received: one of a rank in reserve")
        if log.failure is not None:
            raise log.failure
        result = operation.result
        if not result.flags.c_contiguous:
            raise UsageError(
                f"collectives want contiguous buffers. Received: strides={result.strides}"
            )
        log.begin(result, untouched=operation.untouched)
        try:
            with (
                self._watched(membership.handle),
                nullcontext() if computes else membership.hooks.waiting(),
            ):
                operation.call(membership.handle)
        except self._mpi.Exception as error:
            if error.Get_error_class() in self._callers_faults():
                raise UsageError(f"MPI refused the buffers of a collective: {error}") from error
            if error.Get_error_class() == self._mpi.ERR_TRUNCATE:
                log.truncations += 1
                if log.truncations > _DOUBTS:
                    raise UsageError(
                        "collectives want buffers of one size on all ranks, in the same order of "
                        f"calls. Received: longer content than fits, {_DOUBTS} times: {error}"
                    ) from error
            raise self._failed(str(error)) from error
        if not operation.valid():
            log.doubts += 1
            if log.doubts > _DOUBTS:
                raise Unrecoverable(
                    f"operation {log.done + 1} must give a valid result within {_DOUBTS} "
                    "repetitions. Received: none; this MPI library computes wrongly, "
                    "try another one, or '--mca coll ^han'"
                )
            raise self._failed("its result is not valid")
        log.complete(membership.world)

    def insist(self, make: Callable[[], Operation]) -> np.ndarray:
        """Attempt the result of *make()*, anew after each recovery, until it completes; collective.

        Args:
            make: builds the operation for the current members; its input does not depend on them.

        Returns:
            Result of the completed operation.
        """
        while True:
            operation = make()
            try:
                self.attempt(operation)
                return operation.result
            except PeerFailure:
                if self._membership.recover().finished:
                    return operation.result

    def regroup(self, why: str) -> bool:
        """Change views after this rank left a common computation before its end; collective.

        If all living ranks left it they go on together, whichever operations each still had to
        make. Without ULFM nothing is done.

        Args:
            why: message of the failure that other ranks see.

        Returns:
            False if other ranks go on with that computation. The caller must then end this rank:
            the others would wait for it, or match its next operation with one of theirs.
        """
        membership = self._membership
        if not membership.ulfm or self._closed:
            return True
        if membership.world.is_spare:
            return False
        return membership.agree_on(
            Purpose.REGROUP, why, until=lambda: membership.world.size == 1, or_end=False
        )

    def leave(self) -> None:
        """Wait for all living members, then finalise MPI; collective, once, as the last call.

        Members that die meanwhile are left out. A rank that leaves while other ranks still make
        operations ends itself, because they would wait for it.
        """
        membership = self._membership
        if self._closed:
            return
        if membership.world.is_spare:
            fail_stop("this rank came to its end while it was in reserve")
        if membership.ulfm and len(membership.world.everyone) > 1:
            # Survivors are at most one operation apart, so the next view change finds all leaving.
            membership.agree_on(
                Purpose.LEAVE, "this rank came to its end", until=lambda: membership.world.size == 1
            )
        self._closed = True
        with membership.hooks.waiting():  # for a rank that is stopped right now, for example
            mpi.finalize()
        membership.handle = membership.whole = _Left()

    def _watched(self, handle: Any) -> AbstractContextManager[None]:
        """Context of an operation; empty on one host, where MPI reports deaths at once.

        It is empty, too, where one thread alone may call MPI: then an operation may wait until the
        failure detector has found each lost rank.
        """
        if not self._interrupts or self._membership.world.host_count == 1:
            return nullcontext()
        return self._interruption.watching(handle)

    def _callers_faults(self) -> set[int]:
        names = ("BUFFER", "COUNT", "TYPE", "OP", "ARG")
        return {getattr(self._mpi, f"ERR_{name}") for name in names}

    def _failed(self, cause: str) -> FtError:
        failure = self._log.fail(cause)
        return failure if self._membership.ulfm else Unrecoverable(_NO_ULFM)
