"""Numbered collectives that can be replayed after a peer died.

When something breaks the survivors' counts differ by at most one (:mod:`ft.operation_log`):

* somebody completed the operation: its result, which includes what the dead contributed,
  is handed to those who did not;
* nobody did: all of them make it again, on the survivors.

A caller that needs the dead rank's *work* in the replayed operation asks
:attr:`ft.Communicator.pending` who was expected to take part in it and who was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.errors import ClosedError, FtError, PeerFailure, Unrecoverable, UsageError
from ft.exit_guard import fail_stop
from ft.interruption import Interruption
from ft.membership import Membership
from ft.operation_log import OperationLog
from ft.views import Purpose

__all__ = ["Operation", "Operations"]

# A result that is wrong because a peer died is right in the repetition.
_DOUBTS = 3

_NO_ULFM = (
    "a peer died and cannot be left behind: in-place recovery wants an MPI with ULFM switched on "
    "(Open MPI 5 under 'mpiexec --with-ft ulfm', as 'matex run' does). "
    "Start again from the newest checkpoint"
)


class Operation(NamedTuple):
    """One attempt at a collective.

    Args:
        result: contiguous array that holds the outcome.
        call: function of the MPI communicator; it must not return before every member has
            entered it.
        valid: local function that says whether *result* can be right; if not, the operation
            failed. It always can by default.
        untouched: promise of the caller that nobody writes into *result* before the next
            operation is complete, because a peer may still need it. Without that promise a copy
            is kept for the peer. False by default.
    """

    result: np.ndarray
    call: Callable[[Any], object]
    valid: Callable[[], bool] = lambda: True
    untouched: bool = False


class Operations:
    """Makes numbered operations among the members, repeats them, and ends them together.

    Args:
        membership: members and spares.
        log: count and results on this rank.
    """

    def __init__(self, membership: Membership, log: OperationLog) -> None:
        self._mpi = mpi.load()
        self._membership = membership
        self._log = log
        self._interruption = Interruption()
        self._closed = False

    def attempt(self, operation: Operation, *, computes: bool = False) -> None:
        """Make *operation* as the next numbered one; collective.

        It is the seam for collectives made elsewhere (a native op). After a failure the content
        of the result is undefined.

        Args:
            operation: the call and its result.
            computes: whether the call also computes, and is no stretch of waiting for others.
                False by default.

        Raises:
            PeerFailure: it did not complete; or an earlier failure was not recovered.
            UsageError: the result is not contiguous, or this rank is in reserve.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died and there is no ULFM; or no repetition gives a valid result.
        """
        membership, log = self._membership, self._log
        if self._closed:
            raise ClosedError("this communicator was left: no further operation is possible")
        if membership.world.waits:
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
        """Attempt what *make()* gives, anew after each recovery, until it is complete; collective.

        Args:
            make: gives the operation for the members of now; its input does not depend on them.

        Returns:
            The result of the operation that completed.
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
        """Meet after this rank left a common computation before its end; collective.

        Where all living ranks did so they go on together, whatever operations each had still
        to make. Without ULFM nothing is done.

        Args:
            why: text of the failure that others see.

        Returns:
            False where others go on with that computation. The caller must then end this rank:
            they would wait for it, or take its next operation for one of theirs.
        """
        membership = self._membership
        if not membership.ulfm or self._closed:
            return True
        if membership.world.waits:
            return False
        return membership.agree_on(
            Purpose.REGROUP, why, until=lambda: membership.world.size == 1, or_end=False
        )

    def leave(self) -> None:
        """Wait for all living members, then finalise MPI; collective, once, the last call.

        Members that die meanwhile are left out. A rank that leaves while others
        still make operations ends itself: they would wait for it.
        """
        membership = self._membership
        if self._closed:
            return
        if membership.world.waits:
            fail_stop("this rank came to its end while it was in reserve")
        if membership.ulfm and len(membership.world.everyone) > 1:
            # Survivors are at most one operation apart, so a second view change finds all leaving.
            membership.agree_on(
                Purpose.LEAVE, "this rank came to its end", until=lambda: membership.world.size == 1
            )
        self._closed = True
        with membership.hooks.waiting():  # for one that is stopped right now, for example
            mpi.finalize()

    def _watched(self, handle: Any) -> AbstractContextManager[None]:
        """Context of an operation on *handle*; on one host MPI tells all of a death at once."""
        membership = self._membership
        if not membership.ulfm or membership.world.host_count == 1:
            return nullcontext()
        return self._interruption.watching(handle)

    def _callers_faults(self) -> set[int]:
        names = ("BUFFER", "COUNT", "TYPE", "OP", "ARG")
        return {getattr(self._mpi, f"ERR_{name}") for name in names}

    def _failed(self, cause: str) -> FtError:
        failure = self._log.fail(cause)
        return failure if self._membership.ulfm else Unrecoverable(_NO_ULFM)
