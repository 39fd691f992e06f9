"""EASGD and EAMSGD: ranks explore around a centre that follows them (arXiv:1412.6651).

Synchronous: all ranks meet at once, so each can hold a copy of the centre, equal to the last
bit: there is no master, and none to lose. Asynchronous: workers meet it in turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

import ft
from matex.strategies.centre import Centre, Visit, staleness_of_all
from matex.strategies.interface import ReplicaLike, Traffic
from matex.strategies.mean import distance, mean
from matex.strategies.rules.elastic import BETA, force, pull, pull_together, pulled_by
from matex.strategies.rules.turns import EVERY

__all__ = ["Elastic"]


class Elastic:
    """The weights travel every *every* steps. Momenta stay with their rank.

    The one model is the centre. At a consensus the workers start from it anew.

    Args:
        replica: of this rank; equal on all when training starts.
        every: steps between meetings.
        beta: the force of all workers together; each has beta / living workers.
        asynchronous: workers meet the centre in turn and do not wait; *every* must be 2 or more.
        nesterov: momentum of an optimizer whose weights are ``x + nesterov * v``, with x the
            worker of EAMSGD, and v what lies behind the weights in the replica. 0: there is none.
    """

    name = "easgd"
    sums_gradients = False

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        every: int = EVERY,
        beta: float = BETA,
        asynchronous: bool = False,
        nesterov: float = 0.0,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._every = every
        self._beta = beta
        self._asynchronous = asynchronous
        self._nesterov = nesterov
        self._state: np.ndarray | None = None  # the centre, where all meet at once
        self._centre: Centre | None = None
        self._away: deque[tuple[np.ndarray, float]] = deque()
        self._distance = 0.0
        self._staleness: Counter[int] = Counter()  # of this worker's meetings
        self._told: Counter[int] = Counter()
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._state is not None:
            return
        self._state = self._replica.read()[: self._replica.weights]
        if self._asynchronous:
            self._away.clear()
            self._centre = Centre(
                self._communicator, self, self._state, count=self._state.size, every=self._every
            )

    def after_step(self, step: int) -> None:
        if self._centre is not None:
            self._centre.after_step(step)
            self.traffic = self._centre.traffic
        elif (step + 1) % self._every == 0:
            own = self._replica.read()
            worker = self._worker(own)
            middle, workers = mean(self._communicator, worker)
            self._shift(own, self._meet(worker, middle, workers) - worker)
            self._staleness[0] += 1
            self.traffic = Traffic(1, worker.nbytes)

    # A worker's part, and the keeper's.

    def bring(self) -> np.ndarray:
        worker = self._worker(self._replica.read())
        members = len(self._communicator.pending.expected)
        self._away.append((worker, force(members, self._beta)))
        return worker

    def take(self, state: np.ndarray) -> None:
        worker, alpha = self._away.popleft()
        self._distance = distance(worker, state)
        self._shift(self._replica.read(), pulled_by(worker, state, alpha))

    def start_from(self, state: np.ndarray, unserved: np.ndarray | None) -> None:
        """The worker stays where it is."""
        self._away.clear()

    def serve(self, state: np.ndarray, visits: Sequence[Visit], members: int) -> list[np.ndarray]:
        alpha, served = force(members, self._beta), []
        for visit in visits:
            state = pull(visit.vector, state, alpha)[1]
            served.append(state)
        return served

    # The one model.

    def consensus(self) -> None:
        """The workers meet the centre, and then are the centre; momenta become their mean."""
        if self._state is None:  # no step was made
            return
        if self._centre is not None:
            self._centre.settle()
            self._state = self._centre.state
            self._staleness += self._centre.staleness
            self._centre = None
        own, count = self._replica.read(), self._replica.weights
        own[:count] = self._worker(own)
        middle, workers = mean(self._communicator, own)
        self._meet(own[:count], middle[:count], workers)
        middle[:count] = self._state
        self._replica.write(middle)
        self._told += staleness_of_all(self._communicator, self._staleness)
        self._staleness = Counter()
        self._state = None  # a callback may change the model before the next step

    def _meet(self, worker: np.ndarray, middle: np.ndarray, workers: int) -> np.ndarray:
        """This worker afterwards."""
        assert self._state is not None
        self._distance = distance(worker, self._state)
        pulled, self._state = pull_together(
            worker, middle, self._state, workers=workers, beta=self._beta
        )
        return pulled

    def _worker(self, own: np.ndarray) -> np.ndarray:
        """The worker that meets the centre: the weights without what momentum looks ahead."""
        count = self._replica.weights
        if not self._nesterov:
            return own[:count].copy()
        return np.asarray(own[:count] - own.dtype.type(self._nesterov) * own[count : 2 * count])

    def _shift(self, own: np.ndarray, by: np.ndarray) -> None:
        own[: by.size] += by
        self._replica.write(own)

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, Any]:
        """How far this worker was from the centre, relative to that, at the last meeting; and
        since the last report how many meetings of all ranks had which staleness."""
        told, self._told = self._told, Counter()
        return {"disagreement": self._distance, "staleness": dict(told)}
