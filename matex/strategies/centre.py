"""A centre that one rank keeps, and to which the workers come in turn without waiting.

The keeper is the first of the living ranks that come, and a worker like the others. What a worker
brings after one step travels while the next is computed; then the keeper serves it, and what it
takes home travels in its turn. Who comes when is known to all
(:mod:`matex.strategies.rules.turns`), so each message is awaited where it must come.

Every worker keeps what it last took home. When somebody has died all get the newest of these,
and the first of those left keeps it: what is lost is on its way then, or the dead keeper's own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

import ft
from matex.strategies.interface import Traffic
from matex.strategies.mean import mean
from matex.strategies.parcels import blank, packed, unpacked
from matex.strategies.rules.nodes import Shares, shares_of_all
from matex.strategies.rules.turns import comes, groups

__all__ = ["Centre", "Visit", "Worker", "staleness_of_all"]


class Visit(NamedTuple):
    """One worker before the keeper."""

    vector: np.ndarray
    share: float
    """The share of this worker among all that come, from 0 to 1."""
    staleness: int
    """Updates of the centre since it last told the worker of itself."""


class Worker(Protocol):
    """What a strategy does with the centre."""

    def bring(self, share: float) -> np.ndarray:
        """What this worker brings now; always of one shape (n,) and dtype."""

    def take(self, state: np.ndarray) -> None:
        """What this worker takes home, from the oldest visit that it has not been told of."""

    def recall(self, unserved: np.ndarray | None) -> None:
        """No visit is under way any more, and of none that was will anything be told.

        Args:
            unserved: what this worker brought and nobody has looked at, if anything.
        """

    def start_from(self, state: np.ndarray) -> None:
        """The centre is *state* for all, after :meth:`recall`."""

    def serve(self, state: np.ndarray, visits: Sequence[Visit], groups: int) -> list[np.ndarray]:
        """The keeper's part: what each of the *visits*, all at once, takes home.

        The last of it is the centre from then on.

        Args:
            groups: in how many the workers come.
        """

    def stand_in(self) -> np.ndarray:
        """What is known here in place of a centre that nobody is left to tell of."""


class _Own:
    """The keeper's way to itself."""

    def __init__(self, vector: np.ndarray) -> None:
        self._vector = vector

    def wait(self) -> np.ndarray:
        return self._vector


class Centre:
    """One rank's part of it: see above. Made on all ranks before the same step.

    Args:
        state: (m,), the centre and what belongs to it; equal on all ranks.
        count: of the elements that a worker brings, of the dtype of *state*.
        every: steps between the visits of one worker.
        bound: of the staleness, at least 1; None for any.
        shares: which of the living ranks come to it, the keeper first; all make one anew when
            one dies.
        common: there is one centre for all, also for ranks that do not come to it. Otherwise
            each rank comes to that of its own group, and no group has ranks of another.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        worker: Worker,
        state: np.ndarray,
        *,
        count: int,
        every: int,
        bound: int | None = None,
        shares: Callable[[Sequence[int]], Shares] = shares_of_all,
        common: bool = True,
    ) -> None:
        self._communicator = communicator
        self._worker = worker
        self.state = state
        """The newest that is known here; equal on all ranks after :meth:`settle`. The keeper may
        write it."""
        self._count = count
        self._every = every
        self._bound = bound
        self._shares_of = shares
        self._common = common
        self._members = communicator.pending.expected
        self._repairs = communicator.pending.repairs
        self._shares = shares(self._members)
        self._version = 0
        self._known = 0  # version of the centre as this worker last heard of it
        self._went: deque[int] = deque()  # what was known in the visits under way
        self._visits: list[tuple[int, ft.Receiving | _Own]] = []
        self._sendings: list[ft.Sending] = []
        self._unserved: np.ndarray | None = None
        self._home: ft.Receiving | _Own | None = None
        self.staleness: Counter[int] = Counter()
        """The staleness of this worker's visits."""
        self.traffic = Traffic()

    def after_step(self, step: int) -> None:
        """What is due between two steps; every member calls it after the same one.

        Collective where it is the first after a repair that all know of; recovers by itself.
        """
        if self.was_repaired():
            self.settle()
        else:
            self.visit(step)

    def settle(self) -> None:
        """All get the newest centre, and nothing is under way; collective, recovers by itself."""
        self.recall()
        self.renew()
        self._worker.start_from(self.state)

    # The parts of these, for what is made of several centres.

    def was_repaired(self) -> bool:
        """Whether all know of a repair since it was last asked. Equal on all ranks; local."""
        # Who completed the operation in which somebody died hears of it one later. So all go
        # by what was so when the next could first be started, which is the same on all of them.
        # Also where nobody died: a repair ends all that is under way.
        pending = self._communicator.pending
        before, self._repairs = self._repairs, pending.repairs
        self._members = pending.expected
        return before != self._repairs

    def visit(self, step: int) -> None:
        """Let who is due come, be served, and go home; local."""
        self.traffic = Traffic()
        if self._communicator.pending.disturbed:
            self._end_ways()
        else:
            self._end_ways(visits=False)
            self._serve(step)
            self._go(step)

    def recall(self) -> None:
        """End all that is under way. Local."""
        self.traffic = Traffic()
        unserved = self._unserved
        self._end_ways()
        self._worker.recall(unserved)

    def renew(self) -> None:
        """Get the newest centre that is known; collective, recovers by itself.

        After a further death the ranks of a group may have got it or not: that is seen to when
        the members have changed. A common centre is equal on all.
        """
        me = self._communicator.world.rank
        known = self._version if me in self._shares else _UNKNOWN
        gathered = self._communicator.allgather(np.array([known], np.int64))
        self._shares = self._shares_of(self._members)
        versions = {rank: int(gathered[rank][0]) for rank in gathered.ranks}
        sources = [rank for rank in versions if self._common or rank in self._shares]
        sources.sort(key=lambda rank: (-versions[rank], rank))
        parcel = packed(self.state, known)
        if not self._common:
            got = self._spread(parcel, sources)
            self.state, self._version = unpacked(parcel if got is None else got)
        else:
            self._communicator.broadcast(parcel, sources=sources)
            state, version = unpacked(parcel)
            if version == _UNKNOWN:  # all who came to it are gone
                state, version = mean(self._communicator, self._worker.stand_in())[0], 0
            self.state, self._version = state, version
        self._known = self._version

    def _spread(self, parcel: np.ndarray, ranks: Sequence[int]) -> np.ndarray | None:
        """The *parcel* of the first of *ranks*, which all of them call for; None after a
        repair."""
        if self._communicator.pending.disturbed:
            return None
        first, me = ranks[0], self._communicator.world.rank
        if me != first:
            into = np.empty_like(parcel)
            return ft.Receiving(self._communicator, into, source=first, number=0).wait()
        for sending in [
            ft.Sending(self._communicator, parcel, to=rank, number=0) for rank in ranks[1:]
        ]:
            sending.wait()
        return parcel

    def _end_ways(self, *, visits: bool = True) -> None:
        """What comes home now, does; and what was sent, and *visits*, is not under way any more."""
        home, self._home = self._home, None
        parcel = None if home is None else home.wait()
        if parcel is not None:  # else the keeper is gone
            state, self._known = unpacked(parcel)
            self.staleness[self._known - 1 - self._went.popleft()] += 1
            if self._known > self._version:
                self.state, self._version = state, self._known
            self._worker.take(state)
        for sending in self._sendings:
            sending.wait()
        self._sendings = []
        if visits:
            for _, way in self._visits:
                way.wait()
            self._visits, self._unserved = [], None
            self._went.clear()

    def _serve(self, step: int) -> None:
        """Let those who came after the step before be served, and find home."""
        came = [(rank, way.wait()) for rank, way in self._visits]
        self._visits = []
        keeper, me = next(iter(self._shares)), self._communicator.world.rank
        if self._unserved is not None and me != keeper:
            into = blank(self.state.size, self.state.dtype)
            self._home = ft.Receiving(self._communicator, into, source=keeper, number=step)
        self._unserved = None
        if not came:
            return
        visits = {rank: self._visit(rank, parcel) for rank, parcel in came if parcel is not None}
        served = self._worker.serve(self.state, [*visits.values()], self._groups)
        states = dict(zip(visits, served, strict=True))
        self.state = served[-1] if served else self.state
        self._version += 1
        for rank, _ in came:
            parcel = packed(states.get(rank, self.state), self._version)
            if rank == me:
                self._home = _Own(parcel)
            else:
                self._send(parcel, to=rank, step=step)

    def _visit(self, rank: int, parcel: np.ndarray) -> Visit:
        vector, known = unpacked(parcel)
        return Visit(vector, self._shares[rank], self._version - known)

    @property
    def _groups(self) -> int:
        return groups(len(self._shares), self._every, self._bound)

    def _go(self, step: int) -> None:
        """Go to the keeper, where it is this worker's turn; and as the keeper, expect those."""
        group = [
            rank
            for place, rank in enumerate(self._shares)
            if comes(place, step, every=self._every, groups=self._groups)
        ]
        keeper, me = next(iter(self._shares)), self._communicator.world.rank
        if me in group:
            self._unserved = self._worker.bring(self._shares[me])
            self._went.append(self._known)
            parcel = packed(self._unserved, self._known)
            if me == keeper:
                self._visits.append((me, _Own(parcel)))
            else:
                self._send(parcel, to=keeper, step=step)
        if me == keeper:
            for rank in group:
                if rank != me:
                    into = blank(self._count, self.state.dtype)
                    way = ft.Receiving(self._communicator, into, source=rank, number=step)
                    self._visits.append((rank, way))

    def _send(self, parcel: np.ndarray, *, to: int, step: int) -> None:
        self._sendings.append(ft.Sending(self._communicator, parcel, to=to, number=step))
        messages, size = self.traffic
        self.traffic = Traffic(messages + 1, size + parcel.nbytes)


def staleness_of_all(communicator: ft.Communicator, own: Counter[int]) -> Counter[int]:
    """How many visits had which staleness, of all living workers; collective."""
    row = np.zeros(_LONGEST + 1, np.int64)
    for staleness, count in own.items():
        row[min(staleness, _LONGEST)] += count
    total = communicator.allgather(row).rows.sum(0)
    return Counter({n: int(total[n]) for n in np.flatnonzero(total).tolist()})


# What is longer counts as so long.
_LONGEST = 255

_UNKNOWN = -1  # the version of a centre that this rank does not come to
