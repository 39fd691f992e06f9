"""Collectives over flat NumPy buffers that survive the death of members."""

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
    """Collectives over the living ranks, which survive the death of other ranks.

    Unless said otherwise a method is *collective*: every member must call it, in the same order,
    from one thread at a time. :meth:`allreduce` sums work that a dead rank no longer does, so it
    raises :class:`PeerFailure`: the caller then calls :meth:`recover`, adds the missing work and
    repeats the sum under the same number. The other collectives recover by themselves.

    Args:
        comm: an ``mpi4py.MPI.Comm`` that this object owns from now on; :meth:`start` takes
            MPI_COMM_WORLD.
        world: the members of *comm*, in its order.
        hooks: functions called at each repair; none by default.
        initial_size: number of ranks at the start of the run; the size of *world* by default.
        cold: cold spares of the run, equal on all ranks; None by default.

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
        """Initialise MPI and exchange hosts and process ids; collective over MPI_COMM_WORLD.

        Args:
            hooks: functions called at each repair; none by default.
            cold: cold spares, which take no part in this call; None by default.

        Returns:
            Communicator of all ranks, without the cold spares.

        Raises:
            Unrecoverable: no MPI was found, or a rank died during the start without ULFM.
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
        """Number of operations completed on this rank. Local."""
        return self._log.done

    @property
    def ulfm(self) -> bool:
        """Whether the run can survive the death of a peer in place. Local."""
        return self._membership.ulfm

    @property
    def failure(self) -> PeerFailure | None:
        """Failure that awaits :meth:`recover`; None if there is none. Local."""
        return self._log.failure

    @property
    def pending(self) -> Pending:
        """Participants of the next operation, and losses since. Local, equal on all ranks."""
        return self._log.pending

    @property
    def handle(self) -> Any:
        """The MPI communicator in use; replaced by every repair. Local."""
        return self._membership.handle

    @property
    def hosts(self) -> Mapping[int, str]:
        """Host of each original rank so far, dead ranks included. Local, equal on all ranks."""
        return self._membership.hosts

    @property
    def initial_size(self) -> int:
        """Number of ranks at the start of the run. Local, equal on all ranks."""
        return self._membership.initial_size

    @property
    def vacancies(self) -> int:
        """Number of places that :meth:`fill` would try to fill. Local, equal on all ranks."""
        return self._standby.vacancies

    @property
    def hooks(self) -> Hooks:
        """Functions called at each repair, and around each wait for other ranks. Local."""
        return self._membership.hooks

    def attach(self, hooks: Hooks) -> None:
        """Replace the hooks. Local.

        Args:
            hooks: functions called at each repair from now on.
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

        After a failure *recv* is undefined and *send* unchanged.

        Args:
            send: contiguous array of any shape and numeric dtype, equal on all ranks; only read.
            recv: contiguous array of the same shape and dtype, which does not overlap *send*.
            valid: local function that returns whether *recv* can be right, for example from a 1
                that every rank adds; a sum that is not valid counts as a failure. By default the
                members are counted by a second, small allreduce.
            untouched: promise not to write to *recv* before the next operation is complete, because
                a peer may still need the result from this rank. Without the promise a copy of the
                result is kept for the peer. False by default.
            barrier_first: promise not to write to *recv* before the next operation, which may write
                to the same *recv*: it waits for all members first, and then no peer needs the old
                result. It costs a barrier, and saves a buffer. False by default.
            chunk: elements of one MPI call, equal on all ranks; :func:`chunk_elements` by default.

        Raises:
            PeerFailure: a peer died, or the sum is not valid; call :meth:`recover` next.
            UsageError: shapes or dtypes differ, or *recv* is not contiguous; nothing was sent.
            ClosedError: after :meth:`leave`.
            Unrecoverable: a peer died and there is no ULFM.
        """
        # MPI returns at once from an empty allreduce, and ranks would drift apart.
        overwrites = self.result_overwritten if barrier_first or not recv.size else None
        operation = collectives.allreduce(
            self.world, send, recv, valid=valid, untouched=untouched or barrier_first,
            overwritten=overwrites, chunk=chunk,
        )  # fmt: skip
        self._operations.attempt(operation)

    def broadcast(self, buffer: np.ndarray, *, sources: Sequence[int] = ()) -> None:
        """Copy the leader's *buffer* into the *buffer* of every member; collective.

        If the leader dies meanwhile, the next leader's content is copied. Recovers by itself.

        Args:
            buffer: contiguous array of the same shape and dtype on all ranks.
            sources: original ranks, equal on all ranks; the first living one of them is copied in
                place of the leader. None by default.

        Raises:
            Unrecoverable: no source is alive; raised on every rank.
        """
        own = buffer.copy() if self.world.size > 1 else buffer
        self.insist(lambda: collectives.broadcast(self.world, buffer, own, sources=sources))

    def allgather(self, send: np.ndarray) -> Gathered:
        """Gather *send* of all members, one row per member; collective.

        Recovers by itself. Members that die meanwhile may have a row, equally on all ranks.

        Args:
            send: array of the same shape and dtype on all ranks.

        Returns:
            Rows and the original rank of each row, equal on all ranks.
        """
        rows = self.insist(lambda: collectives.allgather(self.world, send))
        return collectives.gathered(rows, np.asarray(send))

    def barrier(self) -> None:
        """Wait until every living member has entered; collective. Recovers by itself."""
        self.insist(collectives.barrier)

    def agree(self, flag: bool) -> bool:
        """Determine whether *flag* is true on every living member; collective. Recovers by itself.

        Args:
            flag: flag of this rank.

        Returns:
            True if the flags of all living members are true; equal on all ranks.
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
        """Note, inside the call of an attempt, that it overwrites the previous result. Local.

        All members must have entered: then no peer needs it, or another member hands it over.
        """
        self._log.is_intact = False

    def insist(self, make: Callable[[], Operation]) -> np.ndarray:
        """Attempt the operation from *make()* until it completes: see :meth:`Operations.insist`."""
        return self._operations.insist(make)

    def recover(self, *, joinable: bool = False) -> Recovery:
        """Repair the communicator after a failure: see :meth:`Membership.recover`."""
        return self._membership.recover(joinable=joinable)

    def regroup(self, why: str) -> bool:
        """View change after this rank left a common computation: see :meth:`Operations.regroup`."""
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
        """Let spares take the places of dead ranks: see :meth:`Standby.fill`."""
        return self._standby.fill()

    def set_places(self, size: int) -> None:
        """Set the number of places for members, local: see :meth:`Standby.set_places`."""
        self._standby.set_places(size)

    def call_back(self, *, closing: bool = False) -> None:
        """Make all waiting ranks members again: see :meth:`Standby.call_back`."""
        self._standby.call_back(closing=closing)

    def admit(self, newcomer: Newcomer | None, *, adds_place: bool = True) -> Member | None:
        """Let a newcomer wait in reserve; collective: see :meth:`Membership.admit`."""
        return self._membership.admit(newcomer, adds_place=adds_place)

    def join(self, admission: Admission) -> None:
        """Wait in reserve from now on, as a newcomer: see :meth:`Membership.enter`."""
        self._membership.enter(admission)

    def lost_spares(self) -> tuple[int, ...]:
        """Spares that are known to be dead: see :meth:`Standby.lost_spares`."""
        return self._standby.lost_spares()
