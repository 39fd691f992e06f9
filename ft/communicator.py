"""Collectives over flat NumPy buffers that outlive their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ft import collectives, mpi
from ft.cold_spares import ColdSpares
from ft.errors import PeerFailure
from ft.hooks import Hooks
from ft.invitation import Admission
from ft.membership import Membership
from ft.newcomers import Newcomer
from ft.operation_log import OperationLog
from ft.operations import Operation, Operations
from ft.records import Gathered, Pending, Recovery
from ft.standby import Standby
from ft.wire import decode_member, encode_member
from ft.world import Member, World

__all__ = ["Communicator"]


class Communicator:
    """Collectives over the living ranks, which survive the death of others.

    Unless said otherwise a method is *collective*: every member must call it, in the same order,
    from one thread at a time. :meth:`allreduce`, whose input is work that the dead no longer do,
    raises :class:`PeerFailure`: the caller then calls :meth:`recover`, adds the missing work and
    makes it again under the same number. The others recover by themselves.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on; :meth:`start` takes
            MPI_COMM_WORLD.
        world: the members of *comm*, in its order.
        hooks: functions called at each repair; none by default.
        initial_size: number of ranks at the start of the run; the size of *world* by default.
        cold: cold spares that wait beside them, equal on all ranks; None by default.

    Example:
        >>> comm = ft.Communicator.start()
        >>> mine, total, finished = np.ones(3), np.empty(3), False
        >>> while not finished:
        ...     try:
        ...         comm.allreduce(mine, total)
        ...         finished = True
        ...     except ft.PeerFailure:
        ...         finished = comm.recover().finished  # where a survivor had completed it
        >>> bool((total == comm.world.size).all())
        True
    """

    def __init__(
        self, comm: Any, world: World, hooks: Hooks | None = None, *, initial_size: int = 0,
        cold: ColdSpares | None = None,
    ) -> None:  # fmt: skip
        self._log = OperationLog(world)
        self._membership = Membership(comm, world, self._log, hooks or Hooks(), cold)
        self._membership.initial_size = initial_size or world.size
        self._operations = Operations(self._membership, self._log)
        self._standby = Standby(self._membership, self._log)

    @classmethod
    def start(cls, hooks: Hooks | None = None, *, cold: ColdSpares | None = None) -> Communicator:
        """Initialise MPI and exchange who is there; collective over MPI_COMM_WORLD.

        Args:
            hooks: functions called at each repair; none by default.
            cold: cold spares, which have no part in it; None by default.

        Returns:
            Communicator of the ranks that have met.

        Raises:
            Unrecoverable: no MPI, or a rank died during the start without ULFM.
        """
        # COMM_WORLD itself, not a copy: when a rank dies while a communicator is made,
        # Open MPI 5.0.11 may crash the others, and so early nobody has a checkpoint.
        comm = mpi.load().COMM_WORLD if cold is None else cold.ranks_apart()
        self = cls(comm, World.of_strangers(comm.Get_size(), comm.Get_rank()), hooks, cold=cold)
        self._log.done = -1  # the allgather that follows is operation 0
        rows = self.allgather(encode_member(Member.here(self.world.rank)))
        self._membership.introduce([decode_member(rank, rows[rank]) for rank in rows.ranks])
        return self

    @property
    def world(self) -> World:
        """Living members as of the last repair. Local."""
        return self._membership.world

    @property
    def done(self) -> int:
        """Number of operations that completed here. Local."""
        return self._log.done

    @property
    def ulfm(self) -> bool:
        """Whether the death of a peer can be survived in place. Local."""
        return self._membership.ulfm

    @property
    def failure(self) -> PeerFailure | None:
        """The failure that :meth:`recover` has not yet dealt with, if any. Local."""
        return self._log.failure

    @property
    def pending(self) -> Pending:
        """Participants of the next operation, and those lost since. Local, equal on all ranks."""
        return self._log.pending

    @property
    def handle(self) -> Any:
        """The MPI communicator in use; replaced by every repair. Local."""
        return self._membership.handle

    @property
    def hosts(self) -> Mapping[int, str]:
        """Host of each original rank that has met, the dead too. Local, equal everywhere."""
        return self._membership.hosts

    @property
    def initial_size(self) -> int:
        """Number of ranks at the start. Local, and equal on all ranks."""
        return self._membership.initial_size

    @property
    def vacancies(self) -> int:
        """Number of vacant places that :meth:`fill` would try to fill. Local, equal everywhere."""
        return self._standby.vacancies

    @property
    def hooks(self) -> Hooks:
        """Functions called at each repair, and around each stretch of waiting. Local."""
        return self._membership.hooks

    def attach(self, hooks: Hooks) -> None:
        """Call other hooks from now on. Local.

        Args:
            hooks: functions called at each repair.
        """
        self._membership.hooks = hooks

    def allreduce(
        self,
        send: np.ndarray,
        recv: np.ndarray,
        *,
        valid: Callable[[], bool] | None = None,
        untouched: bool = False,
        barrier_first: bool = False,
        chunk: int | None = None,
    ) -> None:
        """Sum *send* over the members into *recv*, out of place; collective.

        After a failure the content of *recv* is undefined, and *send* is as it was.

        Args:
            send: contiguous array of any shape and numeric dtype, equal on all ranks; only read.
            recv: contiguous array of the same shape and dtype, which does not overlap *send*.
            valid: local function that says whether *recv* can be right, for example from a 1
                that every rank adds; a sum that is not counts as one that failed. By default
                the members count themselves in a further, small collective.
            untouched: promise not to write into *recv* before the next operation is complete,
                because a peer may still need the result from here. It saves the copy that is
                kept for the peer otherwise. False by default.
            barrier_first: promise until the next operation begins, which may write into this same
                *recv*: that one waits until all are there, for then nobody needs the result any
                more. It costs a barrier, and saves a buffer. False by default.
            chunk: elements in a call of MPI, the same everywhere; :func:`chunk_elements` gives it.

        Raises:
            PeerFailure: a peer died, or the sum is not valid; :meth:`recover` comes next.
            UsageError: the buffers do not fit; nothing was communicated.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died and there is no ULFM.
        """
        # MPI returns at once from an empty one, and ranks would drift apart.
        overwrites = self.result_overwritten if barrier_first or not recv.size else None
        operation = collectives.allreduce(
            self.world, send, recv, valid=valid, untouched=untouched or barrier_first,
            overwritten=overwrites, chunk=chunk,
        )  # fmt: skip
        self._operations.attempt(operation)

    def broadcast(self, buffer: np.ndarray, *, sources: Sequence[int] = ()) -> None:
        """Copy the leader's *buffer* into everybody's; collective.

        When the leader dies on the way, the next leader's content counts. It recovers by itself.

        Args:
            buffer: contiguous array of one shape and dtype everywhere.
            sources: original ranks, equal on all; the first of them that lives is copied
                in place of the leader. None by default.

        Raises:
            Unrecoverable: none of the sources is alive; on every rank.
        """
        own = buffer.copy() if self.world.size > 1 else buffer
        self.insist(lambda: collectives.broadcast(self.world, buffer, own, sources=sources))

    def allgather(self, send: np.ndarray) -> Gathered:
        """Gather everybody's *send*, one row a member; collective.

        Members that die on the way may or may not have a row, alike on all ranks. It recovers by
        itself.

        Args:
            send: array of one shape and dtype everywhere.

        Returns:
            Rows and the original ranks that they are from, equal on all ranks.
        """
        rows = self.insist(lambda: collectives.allgather(self.world, send))
        return collectives.gathered(rows, np.asarray(send))

    def barrier(self) -> None:
        """Return when every living member has entered; collective. It recovers by itself."""
        self.insist(collectives.barrier)

    def agree(self, flag: bool) -> bool:
        """Find out whether *flag* is true on every living member; collective.

        It recovers by itself, and never raises :class:`PeerFailure`.

        Args:
            flag: this rank's.

        Returns:
            Whether all are true, equal on all ranks.
        """
        true, of_all = self.insist(lambda: collectives.count_flags(self.world, flag))
        return bool(true == of_all)

    def attempt(
        self,
        result: np.ndarray,
        call: Callable[[Any], object],
        valid: Callable[[], bool] = lambda: True,
        untouched: bool = False,
        *,
        computes: bool = False,
    ) -> None:
        """Run *call(comm)* as the next numbered operation: see :meth:`Operations.attempt`."""
        self._operations.attempt(Operation(result, call, valid, untouched), computes=computes)

    def result_overwritten(self) -> None:
        """Say, inside the call of an attempt, that it writes over the result before it. Local.

        All members must be here by then: nobody needs it, or somebody else hands it over.
        """
        self._log.is_intact = False

    def insist(self, make: Callable[[], Operation]) -> np.ndarray:
        """Attempt what *make()* gives until it completes: see :meth:`Operations.insist`."""
        return self._operations.insist(make)

    def recover(self, *, joinable: bool = False) -> Recovery:
        """Repair the communicator after a failure: see :meth:`Membership.recover`."""
        return self._membership.recover(joinable=joinable)

    def regroup(self, why: str) -> bool:
        """Meet after this rank left a common computation: see :meth:`Operations.regroup`."""
        return self._operations.regroup(why)

    def leave(self) -> None:
        """Wait for all living members, then finalise MPI: see :meth:`Operations.leave`."""
        self._operations.leave()

    def set_aside(self, working: int) -> bool:
        """Let all but the first *working* members wait: see :meth:`Standby.set_aside`."""
        return self._standby.set_aside(working)

    def wait(self, idle: Callable[[], None] = lambda: None) -> Recovery:
        """Wait until this rank is a member again: see :meth:`Standby.wait`."""
        return self._standby.wait(idle)

    def fill(self) -> tuple[tuple[int, int], ...]:
        """Let spares take the places of those who died: see :meth:`Standby.fill`."""
        return self._standby.fill()

    def call_back(self, *, closing: bool = False) -> None:
        """Make members of all who wait: see :meth:`Standby.call_back`."""
        self._standby.call_back(closing=closing)

    def admit(self, newcomer: Newcomer | None) -> Member | None:
        """Let a newcomer wait in reserve; collective: see :meth:`Membership.admit`."""
        return self._membership.admit(newcomer)

    def join(self, admission: Admission) -> None:
        """Wait in reserve from now on, on a newcomer: see :meth:`Membership.enter`."""
        self._membership.enter(admission)

    def lost_in_reserve(self) -> tuple[int, ...]:
        """Ranks in reserve that are known to be dead: see :meth:`Standby.lost_in_reserve`."""
        return self._standby.lost_in_reserve()
