"""A centre that one rank keeps, and to which the workers come in turn without waiting.

The keeper is the first of the living ranks, and a worker like the others. What a worker brings
after one step travels while the next is computed; then the keeper serves it, and what it takes
home travels in its turn. Who comes when is known to all (:mod:`matex.strategies.rules.turns`),
so each message is awaited where it must come.

Every worker keeps what it last took home. When somebody has died all get the newest of these,
and the first of those left keeps it: what is lost is on its way then, or the dead keeper's own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

import ft
from matex.strategies.interface import Traffic
from matex.strategies.parcels import blank, packed, unpacked
from matex.strategies.rules.turns import comes, groups

__all__ = ["Centre", "Visit", "Worker", "staleness_of_all"]


class Visit(NamedTuple):
    """One worker before the keeper."""

    vector: np.ndarray
    staleness: int
    """Updates of the centre since it last told the worker of itself."""


class Worker(Protocol):
    """What a strategy does with the centre."""

    def bring(self) -> np.ndarray:
        """What this worker brings now; always of one shape (n,) and dtype."""

    def take(self, state: np.ndarray) -> None:
        """What this worker takes home, from the oldest visit that it has not been told of."""

    def start_from(self, state: np.ndarray, unserved: np.ndarray | None) -> None:
        """The centre is *state* for all, and no visit is under way any more.

        Args:
            unserved: what this worker brought and nobody has looked at, if anything.
        """

    def serve(self, state: np.ndarray, visits: Sequence[Visit], members: int) -> list[np.ndarray]:
        """The keeper's part: what each of the *visits*, all at once, takes home.

        The last of it is the centre from then on.
        """


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
    ) -> None:
        self._communicator = communicator
        self._worker = worker
        self._state = state
        self._count = count
        self._every = every
        self._bound = bound
        self._members = communicator.pending.expected
        self._version = 0
        self._known = 0  # version of the centre as this worker last heard of it
        self._went: deque[int] = deque()  # what was known in the visits under way
        self._visits: list[tuple[int, ft.Receiving | _Own]] = []
        self._sendings: list[ft.Sending] = []
        self._unserved: np.ndarray | None = None
        self._home: ft.Receiving | _Own | None = None
        self.staleness: Counter[int] = Counter()
        """Of this worker's visits."""
        self.traffic = Traffic()

    @property
    def state(self) -> np.ndarray:
        """The newest that is known here; equal on all ranks after :meth:`settle`."""
        return self._state

    def after_step(self, step: int) -> None:
        """What is due between two steps; every member calls it after the same one.

        Collective where it is the first after a death that all know of; recovers by itself.
        """
        self.traffic = Traffic()
        pending = self._communicator.pending
        # Who completed the operation in which somebody died hears of it one later. So all go
        # by who was expected to come to the next, which is the same on all of them.
        if pending.expected != self._members:
            self.settle()
            self._members = pending.expected
        elif pending.lost:
            self._end_ways()
        else:
            self._end_ways(visits=False)
            self._serve(step)
            self._go(step)

    def settle(self) -> None:
        """All get the newest centre, and nothing is under way; collective, recovers by itself."""
        unserved = self._unserved
        self._end_ways()
        gathered = self._communicator.allgather(np.array([self._version], np.int64))
        versions = {rank: int(gathered[rank][0]) for rank in gathered.ranks}
        parcel = packed(self._state, self._version)
        newest = sorted(versions, key=lambda rank: (-versions[rank], rank))
        self._communicator.broadcast(parcel, sources=newest)
        self._state, self._version = unpacked(parcel)
        self._known = self._version
        self._worker.start_from(self._state, unserved)

    def _end_ways(self, *, visits: bool = True) -> None:
        """What comes home now, does; and what was sent, and *visits*, is not under way any more."""
        home, self._home = self._home, None
        parcel = None if home is None else home.wait()
        if parcel is not None:  # else the keeper is gone
            state, self._known = unpacked(parcel)
            self.staleness[self._known - 1 - self._went.popleft()] += 1
            if self._known > self._version:
                self._state, self._version = state, self._known
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
        keeper, me = self._members[0], self._communicator.world.rank
        if self._unserved is not None and me != keeper:
            into = blank(self._state.size, self._state.dtype)
            self._home = ft.Receiving(self._communicator, into, source=keeper, number=step)
        self._unserved = None
        if not came:
            return
        visits = {rank: self._visit(parcel) for rank, parcel in came if parcel is not None}
        served = self._worker.serve(self._state, [*visits.values()], len(self._members))
        states = dict(zip(visits, served, strict=True))
        self._state = served[-1] if served else self._state
        self._version += 1
        for rank, _ in came:
            parcel = packed(states.get(rank, self._state), self._version)
            if rank == me:
                self._home = _Own(parcel)
            else:
                self._send(parcel, to=rank, step=step)

    def _visit(self, parcel: np.ndarray) -> Visit:
        vector, known = unpacked(parcel)
        return Visit(vector, self._version - known)

    def _go(self, step: int) -> None:
        """Go to the keeper, where it is this worker's turn; and as the keeper, expect those."""
        count = groups(len(self._members), self._every, self._bound)
        group = [
            rank
            for place, rank in enumerate(self._members)
            if comes(place, step, every=self._every, groups=count)
        ]
        keeper, me = self._members[0], self._communicator.world.rank
        if me in group:
            self._unserved = self._worker.bring()
            self._went.append(self._known)
            parcel = packed(self._unserved, self._known)
            if me == keeper:
                self._visits.append((me, _Own(parcel)))
            else:
                self._send(parcel, to=keeper, step=step)
        if me == keeper:
            for rank in group:
                if rank != me:
                    into = blank(self._count, self._state.dtype)
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
