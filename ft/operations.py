"""OperationLog collectives that can be replayed after a peer died.

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
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ft import mpi
from ft.errors import ClosedError, FtError, PeerFailure, Unrecoverable, UsageError
from ft.membership import Membership
from ft.views import Purpose

__all__ = ["Operation", "OperationLog"]


class Operation(NamedTuple):
    """One attempt at a collective: see :meth:`Communicator.attempt`."""

    result: np.ndarray
    call: Callable[[Any], object]
    valid: Callable[[], bool] = lambda: True
    untouched: bool = False


class OperationLog(Membership):
    """Counts operations over the living ranks, and repairs after a death."""

    # Operations.

    def attempt(
        self,
        result: np.ndarray,
        call: Callable[[Any], object],
        valid: Callable[[], bool] = lambda: True,
        untouched: bool = False,
        *,
        computes: bool = False,
    ) -> None:
        """Run *call(comm)* as the next numbered operation, with *result* as its outcome.

        The seam for collectives made elsewhere (a native op). *call* must not
        return before every member has entered it. Afterwards *valid()* says whether
        *result* can be right; if not, the operation failed. A *call* that also
        *computes* is not a stretch of waiting for others.

        Args:
            untouched: the caller promises that nobody writes into *result* before the next
                operation is complete, because a peer may still need it. Without that promise
                a copy is kept for the peer.

        Raises:
            PeerFailure: it did not complete; or an earlier failure was not recovered.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died and there is no ULFM.
        """
        if self._closed:
            raise ClosedError("this communicator was left: no further operation is possible")
        if self._world.waits:
            raise UsageError("operations are for members. Received: one of a rank in reserve")
        if self._failure is not None:
            raise self._failure
        if not result.flags.c_contiguous:
            raise UsageError(
                f"collectives want contiguous buffers. Received: strides={result.strides}"
            )
        self._attempted, self._untouched = result, untouched
        try:
            with nullcontext() if computes else self.waiting():
                call(self._comm)
        except self._mpi.Exception as error:
            if error.Get_error_class() in self._callers_faults():
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

    def _callers_faults(self) -> set[int]:
        names = ("BUFFER", "COUNT", "TYPE", "OP", "ARG")
        return {getattr(self._mpi, f"ERR_{name}") for name in names}

    def _failed(self, cause: str) -> FtError:
        self._detect_time_s = time.time()
        if not self._ulfm:
            return Unrecoverable(_NO_ULFM)
        self._has_failed = True
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

    def regroup(self, why: str) -> bool:
        """Meet after this rank left a common computation before its end; collective.

        Where all living ranks did so they go on together, whatever operations each had still
        to make. Without ULFM nothing is done.

        Args:
            why: what a failure that others see says.

        Returns:
            False where others go on with that computation. The caller must then end this rank:
            they would wait for it, or take its next operation for one of theirs.
        """
        if not self._ulfm or self._closed:
            return True
        return self._try_agree_on(Purpose.REGROUP, why, until=lambda: self._world.size == 1)

    def leave(self) -> None:
        """Wait for all living members, then finalise MPI; collective, once, the last call.

        Members that die meanwhile are left out. A rank that leaves while others
        still make operations ends itself: they would wait for it.
        """
        if self._closed:
            return
        if self._world.waits:
            mpi.fail_stop("this rank came to its end while it was in reserve")
        alone = self._world.size == 1 and not self._world.reserve
        if self._ulfm and not alone:
            # Survivors are at most one operation apart, so a second view change finds all leaving.
            self._agree_on(
                Purpose.LEAVE, "this rank came to its end", until=lambda: self._world.size == 1
            )
        self._closed = True
        with self.waiting():  # for one that is stopped right now, for example
            mpi.finalize()


# A result that is wrong because a peer died is right in the repetition.
_DOUBTS = 3

_NO_ULFM = (
    "a peer died and cannot be left behind: in-place recovery wants an MPI with ULFM switched on "
    "(Open MPI 5 under 'mpiexec --with-ft ulfm', as 'matex run' does). "
    "Start again from the newest checkpoint"
)
