"""Downpour SGD: workers bring a centre what they have moved, and go on from what it has become.

When they come, and what a push counts: :mod:`matex.strategies.rules.downpour`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

import ft
from matex.strategies.centre import Centre, Visit, staleness_of_all
from matex.strategies.interface import ReplicaLike, Traffic
from matex.strategies.mean import distance, mean, meet
from matex.strategies.rules.downpour import explicit_momentum, updated
from matex.strategies.rules.turns import EVERY, groups

__all__ = ["Downpour"]


class Downpour:
    """The weights of one worker travel to the centre and back every few steps, while it computes.

    With a *bound* of 0 all meet at once, in one collective: each then has the centre, and
    nobody keeps it. The optimizer's state stays with its worker until a consensus, where it
    becomes the mean, as the weights do; the centre's momentum starts from nothing then.

    Args:
        replica: of this rank; equal on all when training starts.
        every: steps between the pushes of one worker; 1 is asynchronous SGD.
        bound: of the staleness of a push, in updates of the centre; None for any.
        momentum: of the updates of the centre, together with what asynchrony adds by itself.
    """

    name = "downpour"
    sums_gradients = False

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        every: int = EVERY,
        bound: int | None = None,
        momentum: float = 0.0,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._every = every
        self._bound = bound
        self._momentum = momentum
        self._state: np.ndarray | None = None
        self._centre: Centre | None = None
        self._last = np.empty(0)  # weights when this worker last pushed, or started
        self._away: deque[np.ndarray] = deque()  # weights when it made the pushes under way
        self._distance = 0.0
        self._staleness: Counter[int] = Counter()  # of this worker's pushes
        self._told: Counter[int] = Counter()
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._state is not None:
            return
        self._last = self._weights()
        velocity = [np.zeros_like(self._last)] if self._momentum else []
        self._state = np.concatenate([self._last, *velocity])
        if self._bound != 0:
            self._centre = Centre(
                self._communicator,
                self,
                self._state,
                count=self._last.size,
                every=self._every,
                bound=self._bound,
            )

    def after_step(self, step: int) -> None:
        if self._centre is not None:
            self._centre.after_step(step)
            self.traffic = self._centre.traffic
        elif (step + 1) % self._every == 0:
            self._meet()

    def _meet(self) -> None:
        """All push at once, and all start from the centre."""
        own = self._replica.read()
        weights = own[: self._replica.weights]
        middle, _ = mean(self._communicator, weights - self._last)
        self._state = self._updated(self._state, [(middle, 0)], share=1.0, groups=1)
        self._last = self._state[: weights.size].copy()
        self._distance = distance(weights, self._last)
        weights[:] = self._last
        self._replica.write(own)
        self._staleness[0] += 1
        self.traffic = Traffic(1, weights.nbytes)

    # A worker's part.

    def bring(self) -> np.ndarray:
        weights = self._weights()
        moved, self._last = weights - self._last, weights
        self._away.append(weights)
        return moved

    def take(self, state: np.ndarray) -> None:
        # What it has moved since stays on top; all that is remembered moves along.
        shift = state[: self._replica.weights] - self._away.popleft()
        self._away = deque(weights + shift for weights in self._away)
        self._last = self._last + shift
        self._move(shift)

    def start_from(self, state: np.ndarray, unserved: np.ndarray | None) -> None:
        centre = state[: self._replica.weights]
        shift = centre - self._last + (0 if unserved is None else unserved)
        self._away.clear()
        self._last = centre.copy()
        self._move(shift)

    # The keeper's part.

    def serve(self, state: np.ndarray, visits: Sequence[Visit], members: int) -> list[np.ndarray]:
        count = groups(members, self._every, self._bound)
        after = self._updated(state, visits, share=count / members, groups=count)
        return [after] * len(visits)

    def _updated(
        self, state: np.ndarray | None, pushes: Sequence[tuple[np.ndarray, int]],
        *, share: float, groups: int,
    ) -> np.ndarray:  # fmt: skip
        assert state is not None
        size = self._replica.weights
        parts = updated(
            state[:size],
            state[size:] if self._momentum else None,
            pushes,
            share=share,
            momentum=explicit_momentum(self._momentum, groups),
        )
        return np.concatenate([part for part in parts if part is not None])

    # The one model.

    def consensus(self) -> None:
        """What nobody has pushed yet counts, and every replica becomes their mean."""
        if self._state is None:  # no step was made
            return
        if self._centre is not None:
            self._centre.settle()
            self._staleness += self._centre.staleness
            self._centre = None
        parted = meet(self._communicator, self._replica)
        self._distance = self._distance if self._bound == 0 else parted
        self._told += staleness_of_all(self._communicator, self._staleness)
        self._staleness = Counter()
        self._state = None  # a callback may change the model before the next step

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, Any]:
        """How far this replica was from the mean, relative to that, at the last consensus (from the
        centre at the last meeting, where all meet); and since the last report how many
        pushes of all ranks had which staleness."""
        told, self._told = self._told, Counter()
        return {"disagreement": self._distance, "staleness": dict(told)}

    def _weights(self) -> np.ndarray:
        return self._replica.read()[: self._replica.weights]

    def _move(self, shift: np.ndarray) -> None:
        own = self._replica.read()
        own[: shift.size] += shift
        self._replica.write(own)
