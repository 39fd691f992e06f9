"""The log of one rank's numbered operations: how many completed, and the result of the newest.

Every rank counts the collectives it has completed (``done``). Each one makes its members wait
for each other, so when something breaks the survivors' counts differ by at most one, and the
operation in question is known to all.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ft.errors import PeerFailure, Unrecoverable
from ft.exit_guard import forget_exit
from ft.records import Pending
from ft.views import View
from ft.world import World

__all__ = ["OperationLog"]


class OperationLog:
    """Counts operations, and keeps the result that a peer may still need. Local.

    ``done`` is how many completed, ``failure`` the one that is not yet recovered,
    ``is_broken`` whether MPI reported it or this rank only came to a repair, ``detect_time_s``
    when that was (``time.time()``). ``is_intact`` is whether the newest result is still there.
    ``doubts`` counts results of the running operation that were not valid. ``out_of_step`` is that
    of :class:`ft.Pending`.

    Args:
        world: the members that take part in the first operation.
    """

    def __init__(self, world: World) -> None:
        self.done = 0
        self.failure: PeerFailure | None = None
        self.is_broken = False
        self.is_intact = True
        self.detect_time_s = 0.0
        self.doubts = 0
        self.out_of_step = False
        self.participants = world.ranks
        self.lost: tuple[int, ...] = ()
        self._repairs = 0
        self._attempted = np.empty(0, np.uint8)
        self._result = np.empty(0, np.uint8)
        self._untouched = True  # whether who attempted it leaves the result alone
        self._copy = np.empty(0, np.uint8)

    @property
    def pending(self) -> Pending:
        """Participants of the next operation, and those lost since; equal on all ranks."""
        return Pending(
            operation=self.done + 1,
            expected=self.participants,
            lost=tuple(sorted(self.lost)),
            out_of_step=self.out_of_step,
            repairs=self._repairs,
        )

    def begin(self, result: np.ndarray, *, untouched: bool) -> None:
        """Note an attempt at the next operation.

        Args:
            result: contiguous buffer that holds the outcome once it is complete.
            untouched: whether the caller leaves it alone until the next operation is complete.
        """
        self._attempted, self._untouched = result, untouched

    def fail(self, cause: str) -> PeerFailure:
        """Note that the attempt failed, and return its error.

        Args:
            cause: message of MPI.
        """
        self.detect_time_s = time.time()
        self.is_broken = True
        self.failure = PeerFailure(self.done + 1, cause)
        return self.failure

    def leave_off(self, why: str) -> None:
        """Note that this rank comes to a repair though no operation of its own has failed.

        Args:
            why: text of the error that a peer sees.
        """
        if self.failure is None:
            self.detect_time_s = time.time()
            self.failure = PeerFailure(self.done + 1, why)

    def complete(self, world: World) -> None:
        """Count the attempted operation, whose result is there, and keep that result.

        Args:
            world: the members by now.
        """
        self.done += 1
        self.doubts = 0
        result = self._attempted
        self._result = result if self._untouched else self._copied(result, world)
        self.is_intact = True
        self.participants = world.ranks
        self.lost = ()
        self.out_of_step = False
        self._repairs = world.generation
        forget_exit()

    def go_on(self, view: View, *, joins: bool) -> None:
        """Take over what the view after a repair says of the next operation.

        Args:
            view: the view that all go on with.
            joins: whether this rank was in reserve, and knows no count of its own.
        """
        self.participants, self.lost = view.expected, view.lost
        self.out_of_step = not view.together
        if joins:
            self.done = view.done
        self.failure = None
        self.is_broken = False

    def hand_over(self, new: Any, *, done: np.ndarray, intact: np.ndarray) -> None:
        """Give the result of the newest complete operation to the members that miss it.

        Collective over *new*; after it every rank holds the result.

        Args:
            new: communicator of the members, an ``mpi4py.MPI.Comm``.
            done, intact: int64 arrays of one element a member, in its order: the operations that
                it completed, and whether it still has the result of the newest.

        Raises:
            Unrecoverable: on all ranks, where nobody has that result any more.
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
        # The ahead ones keep what they have: a transient copy, not their live buffer, takes part.
        mine = self._attempted if self.done < newest else np.array(self._result, copy=True)
        new.Bcast(mine, root=int(holders[0]))

    def _copied(self, result: np.ndarray, world: World) -> np.ndarray:
        """The bytes of *result*, for a peer that may need it while its owner writes over it.

        One buffer serves all: a rank that has completed an operation knows that all have the one
        before.
        """
        if len(world.everyone) == 1:
            return self._copy
        if self._copy.size < result.nbytes:
            self._copy = np.empty(result.nbytes, np.uint8)
        copy = self._copy[: result.nbytes]
        np.copyto(copy, result.reshape(-1).view(np.uint8))
        return copy.view(result.dtype).reshape(result.shape)
