"""Cold spares: processes started with the ranks that wait with nothing imported but MPI.

A *cold spare* takes a tenth of a rank's memory. A member that calls a cold spare becomes its
sponsor, and the cold spare a newcomer, see :mod:`ft.newcomers`. Runs on several hosts use cold
spares because Open MPI 5.0 cannot start processes there while a job runs.

Members and cold spares communicate over MPI_COMM_WORLD, which carries nothing else and is never
repaired: messages between two living processes of it arrive, whichever others have died.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ft import mpi, sockets
from ft.bridge import Bridge, BridgeBroken
from ft.cold_messages import ColdMessages, Signal
from ft.connecting import LONG_STEP_S, ended_after, fail_stop_after
from ft.errors import Unrecoverable
from ft.silent_hosts import SilentHosts
from ft.wire import decode_member, encode_member
from ft.world import Member

__all__ = ["Call", "ColdSpares"]

# There is no hurry: importing what a rank needs takes seconds.
_LOOK_S = 0.2
# Making the pair takes some milliseconds, or some hundred where many processes share few cores.
_PAIR_S = 15.0
_STUCK = "a cold spare died while it was being connected, which Open MPI cannot end"


class Call:
    """A call to a cold spare, as a :class:`ft.PendingProcess`: see :meth:`ColdSpares.call`. Local.

    Args:
        spares: cold spares of the run.
        rank: rank in MPI_COMM_WORLD of the cold spare that was called.
    """

    def __init__(self, spares: ColdSpares, rank: int) -> None:
        self._spares = spares
        self._rank = rank

    def bridge(self) -> Bridge | None:
        """Connect with the cold spare, if it has answered; local.

        The connection takes the caller some milliseconds. No other thread of the caller may make
        communicators meanwhile: Open MPI 5.0 does not make two at once.

        Returns:
            The connection; None while there is no answer.

        Raises:
            BridgeBroken: the cold spare has died.
        """
        return self._spares.answer(self._rank)


class ColdSpares:
    """The cold spares of a run, as seen by each of its processes.

    Args:
        comm: MPI_COMM_WORLD, an ``mpi4py.MPI.Comm``.
        members: all processes of *comm*, in its order, the cold spares last.
        cold: number of cold spares.

    Example:
        >>> def begin(cold):  # on each process, of which the last ones are cold
        ...     ft.allow_newcomers()
        ...     spares = ft.ColdSpares.meet(cold)
        ...     if not spares.is_one:
        ...         return ft.Communicator.start(cold=spares)
        ...     bridge = spares.wait()
        ...     return None if bridge is None else ft.Invitation(bridge)
    """

    def __init__(self, comm: Any, members: Sequence[Member], cold: int) -> None:
        self._comm = comm
        self._messages = ColdMessages(comm)
        self._members = tuple(members)
        self._first = len(members) - cold
        self._called: set[int] = set()
        self._shut_addresses: frozenset[str] = frozenset()

    @classmethod
    def meet(cls, cold: int) -> ColdSpares:
        """Exchange ranks and hosts; collective over MPI_COMM_WORLD, once, before the ranks start.

        A death during this call ends all processes: nothing has been trained yet.

        Args:
            cold: number of cold spares, the last processes of MPI_COMM_WORLD, at least 1.

        Returns:
            The cold spares; this process may be one of them.
        """
        comm = mpi.load().COMM_WORLD
        mine = encode_member(Member.here(comm.Get_rank()))
        rows = np.zeros((comm.Get_size(), mine.size), np.uint8)
        comm.Allgather(mine, rows)
        return cls(comm, [decode_member(rank, row) for rank, row in enumerate(rows)], cold)

    @property
    def is_one(self) -> bool:
        """Whether this process was started as a cold spare. Local."""
        return bool(self._comm.Get_rank() >= self._first)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts on which cold spares were started. Local, equal on all processes."""
        return frozenset(member.host for member in self._members[self._first :])

    @property
    def machines(self) -> frozenset[tuple[str, str]]:
        """Identities of these hosts (``ft.Member.machine``). Local, equal on all processes."""
        return frozenset(member.machine for member in self._members[self._first :])

    def ranks_apart(self) -> Any:
        """Communicator of the ranks without the cold spares; collective over the ranks.

        :meth:`ft.Communicator.start` calls it.

        Returns:
            An ``mpi4py.MPI.Comm``.
        """
        return self._comm.Create_group(self._comm.Get_group().Incl(range(self._first)))

    def free(self, known: Iterable[Member] = ()) -> tuple[Member, ...]:
        """Living cold spares that have not been called, as far as this process knows. Local.

        Args:
            known: processes that are members now; none by default.

        Returns:
            Members with their ranks in MPI_COMM_WORLD, which :meth:`call` takes. A newcomer gets
            another rank, higher than every rank before it.
        """
        working = {(*member.machine, member.space, member.pid) for member in known}
        others = self._messages.failed() | self._called | {self._comm.Get_rank()}
        return tuple(
            member
            for member in self._members[self._first :]
            if member.rank not in others
            and (*member.machine, member.space, member.pid) not in working
        )

    def call(self, rank: int) -> Call:
        """Turn a cold spare into a newcomer; local to its sponsor.

        Args:
            rank: rank in MPI_COMM_WORLD of a cold spare from :meth:`free`.

        Returns:
            The call, as the *process* of a :class:`ft.Newcomer`.
        """
        self._called.add(rank)
        with contextlib.suppress(BridgeBroken):  # which the first look at the call finds, too
            self._messages.tell(rank, Signal.CALL)
        return Call(self, rank)

    def answer(self, rank: int) -> Bridge | None:
        """Connect with a cold spare that was called, if it has answered. Local.

        :meth:`Call.bridge` calls it.

        Args:
            rank: rank in MPI_COMM_WORLD of the cold spare.

        Returns:
            The connection; None while there is no answer.

        Raises:
            BridgeBroken: the cold spare has died.
        """
        if not self._messages.has_answered(rank):
            return None
        with fail_stop_after(_PAIR_S, _STUCK):
            return Bridge(self._messages.pair(sponsor=self._comm.Get_rank(), newcomer=rank), 1)

    def wait(self, expected: Callable[[], None] = lambda: None) -> Bridge | None:
        """Wait, without using a core, until a member calls; on a cold spare, once.

        Args:
            expected: function called once, when this process becomes the next cold spare of its
                host because another one has joined the run there; it may prepare what this process
                will need. It must be short, because no message is received meanwhile.

        Returns:
            Connection with the member that called; None when the run is over.

        Raises:
            Unrecoverable: every process that could call has died.
        """
        works = set(range(self._first))
        gone: set[int] = set()
        is_next = False
        while True:
            message = self._messages.receive()
            if message is None:
                gone = self._newly_gone(gone, works)
                if works <= gone:
                    raise Unrecoverable("all who could call this process are gone")
                time.sleep(_LOOK_S)
                continue
            source, tag, content = message
            if tag == Signal.OVER:
                return None
            if tag == Signal.SILENT:
                sockets.shut(content.decode().split())
            elif tag == Signal.WORKS:
                works.add(source)
                if not is_next and self._is_next(source, elsewhere=works | gone):
                    is_next = True
                    expected()
            elif tag == Signal.CALL:
                with contextlib.suppress(BridgeBroken):  # the caller has died; another may call
                    return self._answered(source)

    def _is_next(self, last: int, *, elsewhere: set[int]) -> bool:
        """Whether this process is the first that waits on the host of *last*, which now works."""
        own = self._members[self._comm.Get_rank()]
        waiting = (m.rank for m in self._members[self._first :] if m.machine == own.machine)
        first = min(rank for rank in waiting if rank not in elsewhere)
        return bool(own.machine == self._members[last].machine and own.rank == first)

    def _answered(self, sponsor: int) -> Bridge:
        """Connection with *sponsor*, which has called.

        Raises:
            BridgeBroken: the sponsor has died.
        """
        self._messages.tell(sponsor, Signal.HERE)
        with ended_after(LONG_STEP_S):
            pair = self._messages.pair(sponsor=sponsor, newcomer=self._comm.Get_rank())
            return Bridge(pair, 0)

    def _newly_gone(self, gone: set[int], works: set[int]) -> set[int]:
        """Ranks in MPI_COMM_WORLD that have died; *gone* are those already known.

        As ranks do in a repair, this process shuts its connections to silent hosts: when the
        network returns, failure reports of those hosts must not reach this process or the working
        ranks. If working ranks are on its host, they send SILENT, and notice the silence sooner.
        """
        now = self._messages.failed()
        me = self._members[self._comm.Get_rank()]
        if now != gone and all(self._members[rank].machine != me.machine for rank in works - now):
            others = {a for member in self._members for a in member.addresses} - set(me.addresses)
            SilentHosts(lambda: others - sockets.left_behind()).disconnect_silent()
        return now

    def announce(self) -> None:
        """Tell the other cold spares that this process is a working rank now. Local."""
        self._tell_all(Signal.WORKS)

    def shut_silent(self, known: Iterable[Member] = ()) -> None:
        """Make the cold spares of this host shut the connections that this process has shut. Local.

        Cold spares exchange no messages by which they would notice a silent host in time, and when
        the network returns they would pass its failure reports on to the ranks.

        Args:
            known: processes that are members now; none by default.
        """
        addresses = sockets.left_behind()
        if addresses == self._shut_addresses:
            return
        self._shut_addresses = addresses
        own = self._members[self._comm.Get_rank()].machine
        for member in self.free(known):
            if member.machine == own:
                with contextlib.suppress(BridgeBroken):
                    self._messages.tell(
                        member.rank, Signal.SILENT, " ".join(sorted(addresses)).encode()
                    )

    def dismiss(self, known: Iterable[Member] = ()) -> None:
        """Tell the cold spares that the run is over, so that they end; local, called by the leader.

        Args:
            known: processes that are members now; none by default.
        """
        self._tell_all(Signal.OVER, known)

    def _tell_all(self, tag: Signal, known: Iterable[Member] = ()) -> None:
        for member in self.free(known):
            with contextlib.suppress(BridgeBroken):
                self._messages.tell(member.rank, tag)
