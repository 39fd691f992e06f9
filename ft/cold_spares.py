"""Processes that started with the ranks, wait, and have imported nothing but MPI.

A *cold spare* takes a tenth of a rank's memory. A member that calls one becomes its sponsor,
and the cold spare a newcomer, see :mod:`ft.newcomers`. It is the way on several hosts, where Open
MPI 5.0 cannot start processes in a running job.

Members and cold spares speak over MPI_COMM_WORLD, which serves for nothing else then. It is never
repaired: between two of its processes that live, messages arrive whoever has died.
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
from ft.silence import SilentHosts
from ft.wire import decode_member, encode_member
from ft.world import Member

__all__ = ["Call", "ColdSpares"]

# It is no hurry: importing what a rank needs takes seconds.
_LOOK_S = 0.2
# It takes some milliseconds, or some hundred where many processes share few cores.
_PAIR_S = 15.0
_STUCK = "a cold spare died while it was being connected, which Open MPI cannot end"


class Call:
    """A call to a cold spare, the way of a newcomer: see :meth:`ColdSpares.call`. Local.

    Args:
        spares: cold spares of the run.
        rank: rank in MPI_COMM_WORLD of the one that was called.
    """

    def __init__(self, spares: ColdSpares, rank: int) -> None:
        self._spares = spares
        self._rank = rank

    def bridge(self) -> Bridge | None:
        """Connect with the process, where it has answered; local.

        It takes some milliseconds of the caller, and is for where no other thread of it makes
        communicators: Open MPI 5.0 does not make two at once.

        Returns:
            The connection; None as long as there is no answer.

        Raises:
            BridgeBroken: it will not come.
        """
        return self._spares.answer(self._rank)


class ColdSpares:
    """The cold spares of a run, as each of its processes sees them.

    Args:
        comm: MPI_COMM_WORLD, an ``mpi4py.MPI.Comm``.
        members: all processes in it, in its order, the cold spares last.
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
        self._parted_from: frozenset[str] = frozenset()

    @classmethod
    def meet(cls, cold: int) -> ColdSpares:
        """Exchange ranks and hosts; collective over MPI_COMM_WORLD, once, before the ranks meet.

        A death in it ends all: nobody has trained yet.

        Args:
            cold: number of cold spares, the last processes of MPI_COMM_WORLD, at least 1.

        Returns:
            The cold spares, of which this process may be one.
        """
        comm = mpi.load().COMM_WORLD
        mine = encode_member(Member.here(comm.Get_rank()))
        rows = np.zeros((comm.Get_size(), mine.size), np.uint8)
        comm.Allgather(mine, rows)
        return cls(comm, [decode_member(rank, row) for rank, row in enumerate(rows)], cold)

    @property
    def is_one(self) -> bool:
        """Whether this process began as a cold spare. Local."""
        return bool(self._comm.Get_rank() >= self._first)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts on which cold spares began. Local, equal on all."""
        return frozenset(member.host for member in self._members[self._first :])

    def ranks_apart(self) -> Any:
        """A communicator of the ranks alone; collective over them.

        :meth:`ft.Communicator.start` calls it.

        Returns:
            An ``mpi4py.MPI.Comm``.
        """
        return self._comm.Create_group(self._comm.Get_group().Incl(range(self._first)))

    def free(self, known: Iterable[Member] = ()) -> tuple[Member, ...]:
        """Cold spares that are alive and that nobody has called, as far as is known here. Local.

        Args:
            known: processes that are members by now; none by default.

        Returns:
            Each with its rank in MPI_COMM_WORLD, by which it is called; as a newcomer it gets
            another, so that no rank is lower than those that were there before it.
        """
        working = {(member.host, member.space, member.pid) for member in known}
        others = self._messages.failed() | self._called | {self._comm.Get_rank()}
        return tuple(
            member
            for member in self._members[self._first :]
            if member.rank not in others and (member.host, member.space, member.pid) not in working
        )

    def call(self, rank: int) -> Call:
        """Make a newcomer of a cold spare; local to its sponsor.

        Args:
            rank: rank in MPI_COMM_WORLD of one that is free.

        Returns:
            Way for :class:`ft.Newcomer`.
        """
        self._called.add(rank)
        with contextlib.suppress(BridgeBroken):  # which the first look at the call finds, too
            self._messages.tell(rank, Signal.CALL)
        return Call(self, rank)

    def answer(self, rank: int) -> Bridge | None:
        """Connect with a cold spare that was called, where it has answered. Local.

        :meth:`Call.bridge` calls it.

        Args:
            rank: rank in MPI_COMM_WORLD.

        Returns:
            The connection; None as long as there is no answer.

        Raises:
            BridgeBroken: it is gone.
        """
        if not self._messages.has_answered(rank):
            return None
        with fail_stop_after(_PAIR_S, _STUCK):
            return Bridge(self._messages.pair(sponsor=self._comm.Get_rank(), newcomer=rank), 1)

    def wait(self, expected: Callable[[], None] = lambda: None) -> Bridge | None:
        """Wait, at no cost, until a member calls; on a cold spare, once.

        Args:
            expected: function that is called once, when this process is the next of its host,
                because another has taken a place there: what it will want can be made ready. It is
                not to take long, for meanwhile no message is heard.

        Returns:
            Connection with that member; None where the run is over.

        Raises:
            Unrecoverable: nobody is left who could call.
        """
        works = set(range(self._first))
        gone: set[int] = set()
        is_next = False
        while True:
            message = self._messages.heard()
            if message is None:
                gone = self._parted(gone, works)
                if works <= gone:
                    raise Unrecoverable("all who could call this process are gone")
                time.sleep(_LOOK_S)
                continue
            source, tag, content = message
            if tag == Signal.OVER:
                return None
            if tag == Signal.PART:
                sockets.shut(content.decode().split())
            elif tag == Signal.WORKS:
                works.add(source)
                if not is_next and self._is_next(source, elsewhere=works | gone):
                    is_next = True
                    expected()
            elif tag == Signal.CALL:
                with contextlib.suppress(BridgeBroken):  # who called is gone: the next one may
                    return self._answered(source)

    def _is_next(self, last: int, *, elsewhere: set[int]) -> bool:
        """Whether this process is the first that waits on the host of *last*, which works now."""
        own = self._members[self._comm.Get_rank()]
        waiting = (m.rank for m in self._members[self._first :] if m.host == own.host)
        first = min(rank for rank in waiting if rank not in elsewhere)
        return bool(own.host == self._members[last].host and own.rank == first)

    def _answered(self, sponsor: int) -> Bridge:
        """The connection with *sponsor*, which has called.

        Raises:
            BridgeBroken: it is gone.
        """
        self._messages.tell(sponsor, Signal.HERE)
        with ended_after(LONG_STEP_S):
            pair = self._messages.pair(sponsor=sponsor, newcomer=self._comm.Get_rank())
            return Bridge(pair, 0)

    def _parted(self, gone: set[int], works: set[int]) -> set[int]:
        """The ranks in MPI_COMM_WORLD that are lost, of whom *gone* were known before.

        As ranks do in a repair, this process shuts its connections to hosts that answer nothing:
        when the network returns, what they believe must not reach it and those who work. Where
        some of those who work are on its host, they say so, and know it sooner.
        """
        now = self._messages.failed()
        me = self._members[self._comm.Get_rank()]
        if now != gone and all(self._members[rank].host != me.host for rank in works - now):
            others = {a for member in self._members for a in member.addresses} - set(me.addresses)
            SilentHosts(lambda: others - sockets.left_behind()).settle()
        return now

    def announce(self) -> None:
        """Tell the other cold spares that this process is a working rank now. Local."""
        self._tell_all(Signal.WORKS)

    def part(self, known: Iterable[Member] = ()) -> None:
        """Have the cold spares of this host shut connections that this process has shut. Local.

        They have no messages of their own by which they would find out in time that a host is
        silent, and what they hear of it when the network returns they tell the ranks.

        Args:
            known: processes that are members by now; none by default.
        """
        addresses = sockets.left_behind()
        if addresses == self._parted_from:
            return
        self._parted_from = addresses
        own = self._members[self._comm.Get_rank()].host
        for member in self.free(known):
            if member.host == own:
                with contextlib.suppress(BridgeBroken):
                    self._messages.tell(
                        member.rank, Signal.PART, " ".join(sorted(addresses)).encode()
                    )

    def dismiss(self, known: Iterable[Member] = ()) -> None:
        """Let the cold spares end, because the run is over; local, by the leader.

        Args:
            known: processes that are members by now; none by default.
        """
        self._tell_all(Signal.OVER, known)

    def _tell_all(self, tag: Signal, known: Iterable[Member] = ()) -> None:
        for member in self.free(known):
            with contextlib.suppress(BridgeBroken):
                self._messages.tell(member.rank, tag)
