"""A centre on one rank, the server, to which the workers push in turn without waiting.

The server is the first living rank that pushes, and also a worker. A worker's push after one step
travels while the next step is computed; then the server answers it, and the answer travels during
the step after. All ranks know the turns (:mod:`matex.strategies.rules.turns`), so each message is
received when it is due.

Every worker keeps the newest answer. After a death all ranks get the newest of these answers, and
the first remaining rank serves it; the messages under way and the dead server's own push are lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

import numpy as np

import ft
from matex.exchange.traffic import Traffic
from matex.strategies.centre.versioned_message import empty_message, pack, unpack
from matex.strategies.centre.worker import CentreWorker
from matex.strategies.mean import mean
from matex.strategies.rules.centre import Push
from matex.strategies.rules.nodes import Shares, shares_of_all
from matex.strategies.rules.turns import groups, is_turn

__all__ = ["ServedCentre"]

_UNKNOWN = -1  # version of a centre to which this rank does not push


class _ToItself:
    """Message of the server's worker to its own server."""

    def __init__(self, message: np.ndarray) -> None:
        self._message = message

    def wait(self) -> np.ndarray:
        return self._message


class ServedCentre:
    """This rank's part of a centre on one rank. Constructed on all ranks before the same step.

    Args:
        worker: this rank's worker.
        state: first state of the centre, of shape (m,); equal on all ranks.
        count: number of elements of a push, which has the dtype of *state*.
        every: number of steps between two pushes of a worker.
        bound: largest staleness of a push, in updates of the centre, at least 1; default None, no
            bound.
        shares: function that returns the living ranks that push to this centre, with their shares,
            the server first; called anew after a death.
        common: whether all ranks have one centre, also ranks that do not push to it. Otherwise each
            rank has the centre of its own group, and groups are disjoint.
    """

    node_centre: np.ndarray | None = None
    distance: float | None = None

    def __init__(
        self,
        communicator: ft.Communicator,
        worker: CentreWorker,
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
        """Newest state known on this rank; equal on all ranks after :meth:`settle`. On the server
        it may be newer."""
        self._count = count
        self._every = every
        self._bound = bound
        self._shares_of = shares
        self._common = common
        self._members = communicator.pending.expected
        self._repairs = communicator.pending.repairs
        self._shares = shares(self._members)
        self.version = 0
        """Number of updates of :attr:`state`."""
        self._known = 0  # version of the newest answer to this worker
        self._known_at_push: deque[int] = deque()  # of the pushes without an answer
        self._pushes: list[tuple[int, ft.Receiving | _ToItself]] = []  # to this server
        self._sendings: list[ft.Sending] = []
        self._unserved: np.ndarray | None = None
        self._answer: ft.Receiving | _ToItself | None = None
        self.staleness: Counter[int] = Counter()
        """Number of pushes of this worker by staleness."""
        self.traffic = Traffic()

    def after_step(self, step: int) -> None:
        """Make the exchanges that are due after *step*; every member calls it after the same step.

        Collective in the first call after a repair; recovers by itself.
        """
        if self.was_repaired():
            self.settle()
        else:
            self.exchange(step)

    def settle(self) -> None:
        """Give all ranks the newest centre, ending all messages; collective, recovers by itself."""
        self.cancel()
        self.renew()
        self._worker.reset(self.state)

    # Parts of these methods, for a topology of several centres.

    def was_repaired(self) -> bool:
        """Whether a repair has happened since the last call. Equal on all ranks; local."""
        # A rank that completed the operation in which a peer died hears of the death one operation
        # later. So all ranks use the state when the next operation could first be started, equal on
        # all ranks.
        # Also without a death: a repair ends all messages under way.
        pending = self._communicator.pending
        before, self._repairs = self._repairs, pending.repairs
        self._members = pending.expected
        return before != self._repairs

    def exchange(self, step: int) -> None:
        """Apply the answer that is due, answer the pushes of the last step, and push; local."""
        self.traffic = Traffic()
        if self._communicator.pending.p2p_unsafe:
            self._end_messages()
        else:
            self._end_messages(pushes=False)
            self._serve(step)
            self._push(step)

    def cancel(self) -> None:
        """End all messages under way. Local."""
        self.traffic = Traffic()
        unserved = self._unserved
        self._end_messages()
        self._worker.cancel(unserved)

    def renew(self) -> None:
        """Get the newest known state of the centre; collective, recovers by itself.

        After another death some ranks of a group may have it and others not, until they renew it
        again because the members have changed. A common centre is equal on all ranks.
        """
        me = self._communicator.world.rank
        known = self.version if me in self._shares else _UNKNOWN
        gathered = self._communicator.allgather(np.array([known], np.int64))
        self._shares = self._shares_of(self._members)
        versions = {rank: int(gathered[rank][0]) for rank in gathered.ranks}
        sources = [rank for rank in versions if self._common or rank in self._shares]
        sources.sort(key=lambda rank: (-versions[rank], rank))
        message = pack(self.state, known)
        if not self._common:
            got = self._spread(message, sources)
            self.state, self.version = unpack(message if got is None else got)
        else:
            self._communicator.broadcast(message, sources=sources)
            state, version = unpack(message)
            if version == _UNKNOWN:  # all ranks that pushed to it have died
                state, version = mean(self._communicator, self._worker.fallback())[0], 0
            self.state, self.version = state, version
        self._known = self.version

    def _spread(self, message: np.ndarray, ranks: Sequence[int]) -> np.ndarray | None:
        """*message* of the first of *ranks*, sent to the others; called by all of *ranks*. None
        after a repair."""
        if self._communicator.pending.p2p_unsafe:
            return None
        first, me = ranks[0], self._communicator.world.rank
        if me != first:
            into = np.empty_like(message)
            return ft.Receiving(self._communicator, into, source=first, number=0).wait()
        for sending in [
            ft.Sending(self._communicator, message, to=rank, number=0) for rank in ranks[1:]
        ]:
            sending.wait()
        return message

    def _end_messages(self, *, pushes: bool = True) -> None:
        """Apply the answer that arrives now, and end all sends and, with *pushes*, the receives."""
        answer, self._answer = self._answer, None
        message = None if answer is None else answer.wait()
        if message is not None:  # else the server has died
            state, self._known = unpack(message)
            self.staleness[self._known - 1 - self._known_at_push.popleft()] += 1
            if self._known > self.version:
                self.state, self.version = state, self._known
            self._worker.apply(state)
        for sending in self._sendings:
            sending.wait()
        self._sendings = []
        if pushes:
            for _, receiving in self._pushes:
                receiving.wait()
            self._pushes, self._unserved = [], None
            self._known_at_push.clear()

    def _serve(self, step: int) -> None:
        """Answer the pushes received after the last step, and post this rank's own receive."""
        came = [(rank, receiving.wait()) for rank, receiving in self._pushes]
        self._pushes = []
        server, me = next(iter(self._shares)), self._communicator.world.rank
        if self._unserved is not None and me != server:
            into = empty_message(self.state.size, self.state.dtype)
            self._answer = ft.Receiving(self._communicator, into, source=server, number=step)
        self._unserved = None
        if not came:
            return
        pushes = {rank: self._read(rank, message) for rank, message in came if message is not None}
        answers = self._worker.serve(self.state, [*pushes.values()], self._groups)
        states = dict(zip(pushes, answers, strict=True))
        self.state = answers[-1] if answers else self.state
        self.version += 1
        for rank, _ in came:
            message = pack(states.get(rank, self.state), self.version)
            if rank == me:
                self._answer = _ToItself(message)
            else:
                self._send(message, to=rank, step=step)

    def _read(self, rank: int, message: np.ndarray) -> Push:
        vector, known = unpack(message)
        return Push(vector, self._shares[rank], self.version - known)

    @property
    def _groups(self) -> int:
        return groups(len(self._shares), self._every, self._bound)

    def _push(self, step: int) -> None:
        """Push if it is this worker's turn; as the server, expect the pushes of other workers."""
        group = [
            rank
            for place, rank in enumerate(self._shares)
            if is_turn(place, step, every=self._every, groups=self._groups)
        ]
        server, me = next(iter(self._shares)), self._communicator.world.rank
        if me in group:
            self._unserved = self._worker.push(self._shares[me])
            self._known_at_push.append(self._known)
            message = pack(self._unserved, self._known)
            if me == server:
                self._pushes.append((me, _ToItself(message)))
            else:
                self._send(message, to=server, step=step)
        if me == server:
            for rank in group:
                if rank != me:
                    into = empty_message(self._count, self.state.dtype)
                    receiving = ft.Receiving(self._communicator, into, source=rank, number=step)
                    self._pushes.append((rank, receiving))

    def _send(self, message: np.ndarray, *, to: int, step: int) -> None:
        self._sendings.append(ft.Sending(self._communicator, message, to=to, number=step))
        self.traffic = self.traffic.plus(Traffic(1, message.nbytes))
