"""The log of one rank's numbered operations: how many completed, and the result of the newest.

Every rank counts the collectives it has completed (``done``). Each collective makes its members
wait for each other, so after a failure the survivors' counts differ by at most one, and all know
which operation is in question.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ft.errors import PeerFailure, Unrecoverable, UsageError
from ft.exit_guard import forget_exit
from ft.pieces import pieces
from ft.records import Pending
from ft.views import View
from ft.world import World

__all__ = ["OperationLog"]


class OperationLog:
    """Counts operations, and keeps the result that a peer may still need. Local.

    ``done`` is the number of completed operations, ``failure`` the failure not yet recovered from,
    ``is_broken`` whether MPI reported it (otherwise this rank only came to a repair),
    ``detect_time_s`` the time of it (``time.time()``). ``is_intact`` is whether the newest result
    has not been overwritten. ``doubts`` counts invalid results of the running operation since the
    last death, and ``truncations`` messages in it that were longer than the buffer for them.
    ``out_of_step`` is the field of :class:`ft.Pending`.

    Args:
        world: participants of the first operation.
    """

    def __init__(self, world: World) -> None:
        self.done = 0
        self.failure: PeerFailure | None = None
        self.is_broken = False
        self.is_intact = True
        self.detect_time_s = 0.0
        self.doubts = self.truncations = 0
        self.out_of_step = False
        self.participants = world.ranks
        self.lost: tuple[int, ...] = ()
        self._unequal = ""  # what is wrong with the sizes of the results
        self._repairs = 0
        self._attempted = np.empty(0, np.uint8)
        self._result = np.empty(0, np.uint8)
        self._untouched = True  # whether the caller of the attempt leaves the result alone
        self._copy = np.empty(0, np.uint8)

    @property
    def pending(self) -> Pending:
        """Participants of the next operation, and those that died since; equal on all ranks."""
        return Pending(
            operation=self.done + 1,
            expected=self.participants,
            lost=tuple(sorted(self.lost)),
            out_of_step=self.out_of_step,
            repairs=self._repairs,
        )

    def begin(self, result: np.ndarray, *, untouched: bool) -> None:
        """Record an attempt at the next operation.

        Args:
            result: contiguous buffer for the result.
            untouched: whether the caller does not write to it until the next operation is complete.
        """
        self._attempted, self._untouched = result, untouched

    def fail(self, cause: str) -> PeerFailure:
        """Record that the attempt failed, and return the error.

        Args:
            cause: error message of MPI.
        """
        self.detect_time_s = time.time()
        self.is_broken = True
        self.failure = PeerFailure(self.done + 1, cause)
        return self.failure

    def must_have_failed(self) -> None:
        """Raise UsageError unless there is a failure to recover from."""
        if self.failure is None:
            raise UsageError("recover() wants a PeerFailure before it. Received: no failure")

    def leave_off(self, why: str) -> None:
        """Record that this rank comes to a repair without a failed operation of its own.

        Args:
            why: message of the error that a peer sees.
        """
        if self.failure is None:
            self.detect_time_s = time.time()
            self.failure = PeerFailure(self.done + 1, why)

    def complete(self, world: World) -> None:
        """Count the attempted operation as complete, and keep its result.

        Args:
            world: the current members.
        """
        self.done += 1
        self.doubts = self.truncations = 0
        result = self._attempted
        self._result = result if self._untouched else self._copied(result, world)
        self.is_intact = True
        self.participants = world.ranks
        self.lost = ()
        self.out_of_step = False
        self._repairs = world.generation
        forget_exit()

    def go_on(self, view: View, *, joins: bool, died: bool) -> None:
        """Take over the state of the next operation from the view after a repair.

        Args:
            view: next view, equal on all ranks.
            joins: whether this rank was in reserve, and so has no count of its own.
            died: whether a member was lost, which explains what was wrong with a result.
        """
        if died:
            self.doubts = self.truncations = 0
        self.participants, self.lost = view.expected, view.lost
        self.out_of_step = not view.at_same_operation
        if joins:
            self.done = view.done
        self.failure = None
        self.is_broken = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of the newest complete result, and of the attempted one."""
        return self._result.nbytes, self._attempted.nbytes

    def refuse_unequal(self) -> None:
        """Tell the caller of an operation whose result could not be handed over.

        Raises:
            UsageError: its buffers had other sizes on other ranks.
        """
        if self._unequal:
            why, self._unequal = self._unequal, ""
            raise UsageError(why)

    def hand_over(
        self, new: Any, *, done: np.ndarray, intact: np.ndarray, sizes: np.ndarray
    ) -> None:
        """Send the result of the newest complete operation to the members that lack it.

        Collective over *new*; once all have agreed that none failed in it, every rank holds the
        result. If its size is not the same everywhere, nothing is sent, and
        :meth:`refuse_unequal` raises on all ranks.

        Args:
            new: communicator of the members, an ``mpi4py.MPI.Comm``.
            done, intact: int64 arrays with one element per member, in the order of *new*: its
                number of completed operations, and whether it still has the newest result.
            sizes: int64 array of shape (members, 2): each member's :attr:`sizes`.

        Raises:
            Unrecoverable: on all ranks, if no member has that result any more.
        """
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
        wanted = np.where(done == newest, sizes[:, 0], sizes[:, 1])[(done < newest) | (intact != 0)]
        if wanted.min() != wanted.max():
            self._unequal = (
                "collectives want buffers of one size on all ranks, in the same order of calls. "
                f"Received: results of {wanted.tolist()} bytes in operation {newest}"
            )
            return
        lacks_it, root = self.done < newest, int(holders[0])
        mine = self._attempted if lacks_it else self._result
        for piece in pieces(mine.reshape(-1).view(np.uint8)):
            # Ranks that have the result keep it: a copy, not their live buffer, takes part.
            new.Bcast(piece if lacks_it else piece.copy(), root=root)

    def _copied(self, result: np.ndarray, world: World) -> np.ndarray:
        """Copy of *result*, for a peer that may need it after the caller has overwritten *result*.

        One buffer is enough: when a rank has completed an operation, all ranks have the previous
        result.
        """
        if len(world.everyone) == 1:
            return self._copy
        if self._copy.size < result.nbytes:
            self._copy = np.empty(result.nbytes, np.uint8)
        copy = self._copy[: result.nbytes]
        np.copyto(copy, result.reshape(-1).view(np.uint8))
        return copy.view(result.dtype).reshape(result.shape)
