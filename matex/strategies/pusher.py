"""What pushes to a centre of Downpour SGD in turn, and goes on from what that has become."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from matex.strategies.centre import Centre, Visit
from matex.strategies.interface import ReplicaLike
from matex.strategies.rules.downpour import Push, explicit_momentum, updated

__all__ = ["NodeWeights", "Place", "Pusher", "RankWeights", "updated_state"]


class Place(Protocol):
    """Weights that move, and what is remembered of them."""

    last: np.ndarray
    """The weights at the last push, or at the start, with what has come from the centre since.
    Not to be written in place."""

    def read(self) -> np.ndarray:
        """A copy of the weights."""

    def shift(self, by: np.ndarray) -> None:
        """Move them."""


class RankWeights:
    """The weights of one replica."""

    def __init__(self, replica: ReplicaLike) -> None:
        self._replica = replica
        self.last = self.read()

    def read(self) -> np.ndarray:
        return self._replica.read()[: self._replica.weights]

    def shift(self, by: np.ndarray) -> None:
        own = self._replica.read()
        own[: by.size] += by
        self._replica.write(own)


class NodeWeights:
    """The weights of a node's centre. What is remembered travels with it to its next keeper."""

    def __init__(self, centre: Centre) -> None:
        self._centre = centre

    @property
    def last(self) -> np.ndarray:
        return np.split(self._centre.state, 2)[1]

    @last.setter
    def last(self, weights: np.ndarray) -> None:
        self._centre.state = np.concatenate([self.read(), weights])

    def read(self) -> np.ndarray:
        return np.split(self._centre.state, 2)[0].copy()

    def shift(self, by: np.ndarray) -> None:
        self._centre.state = np.concatenate([self.read() + by, self.last])


class Pusher:
    """A worker of a centre, whose state is the weights and what belongs to them.

    Args:
        momentum: of the centre's updates, together with what asynchrony adds by itself; its
            velocity is behind the weights.
        staler: by how many updates more than it is. With 1 workers that come one by one make
            their mean; without, M of them move the centre M / (M - 1) times as far.
    """

    def __init__(self, place: Place, *, momentum: float = 0.0, staler: int = 0) -> None:
        self._place = place
        self._momentum = momentum
        self._staler = staler
        self._size = place.last.size
        self._away: deque[np.ndarray] = deque()  # weights when it made the pushes under way

    def bring(self, share: float) -> np.ndarray:
        weights = self._place.read()
        moved, self._place.last = weights - self._place.last, weights
        self._away.append(weights)
        return np.asarray(moved)

    def take(self, state: np.ndarray) -> None:
        # What it has moved since stays on top; all that is remembered moves along.
        shift = state[: self._size] - self._away.popleft()
        self._away = deque(weights + shift for weights in self._away)
        self._place.last = self._place.last + shift
        self._place.shift(shift)

    def recall(self, unserved: np.ndarray | None) -> None:
        self._away.clear()
        if unserved is not None:
            self._place.last = self._place.last - unserved

    def start_from(self, state: np.ndarray) -> None:
        """What it has not pushed stays on top."""
        centre = state[: self._size].copy()
        shift = centre - self._place.last
        self._place.last = centre
        self._place.shift(shift)

    def serve(self, state: np.ndarray, visits: Sequence[Visit], groups: int) -> list[np.ndarray]:
        pushes = [
            (visit.vector, groups * visit.share, visit.staleness + self._staler) for visit in visits
        ]
        after = updated_state(
            state, pushes, size=self._size, momentum=self._momentum, groups=groups
        )
        return [after] * len(visits)

    def stand_in(self) -> np.ndarray:
        """The centre as this knows it; its momentum starts from nothing."""
        velocity = [np.zeros_like(self._place.last)] if self._momentum else []
        return np.concatenate([self._place.last, *velocity])


def updated_state(
    state: np.ndarray, pushes: Sequence[Push], *, size: int, momentum: float, groups: int
) -> np.ndarray:
    """The centre, its *size* weights and what is behind them, after one update. Pure.

    Args:
        momentum: 0 where it is no velocity that is behind the weights.
        groups: in how many the workers come.
    """
    weights, rest = state[:size], state[size:]
    after, velocity = updated(
        weights,
        rest if momentum else None,
        pushes,
        momentum=explicit_momentum(momentum, groups),
    )
    return np.concatenate([after, rest if velocity is None else velocity])
