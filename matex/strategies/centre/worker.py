"""Worker of a centre: a rule, and the weights that it moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from matex.strategies.interface import ReplicaLike
from matex.strategies.rules.centre import CentreRule, Push, Sent, WorkerMemory

__all__ = ["CentreState", "CentreWorker", "NodeWeights", "RankWeights", "WorkerWeights"]


class WorkerWeights(Protocol):
    """Weights that a worker moves, and weights that it tracks."""

    tracked: np.ndarray
    """The rule's :attr:`WorkerMemory.tracked`. Not to be written in place."""

    def read(self) -> np.ndarray:
        """Copy of the weights, of shape (n,). Local."""

    def shift(self, by: np.ndarray) -> None:
        """Add *by*, of shape (n,), to the weights. Local."""


class RankWeights:
    """Weights of the replica of a rank."""

    def __init__(self, replica: ReplicaLike, rule: CentreRule) -> None:
        self._replica = replica
        self._rule = rule
        self.tracked = self.read()[: replica.weights if rule.tracks_weights else 0]

    def read(self) -> np.ndarray:
        return self._rule.position(self._replica.read(), self._replica.weights)

    def shift(self, by: np.ndarray) -> None:
        own = self._replica.read()
        own[: by.size] += by
        self._replica.write(own)


class CentreState(Protocol):
    """Holder of a centre's state."""

    state: np.ndarray


class NodeWeights:
    """Weights of a node's centre. The tracked weights travel with them to the next server."""

    def __init__(self, centre: CentreState, rule: CentreRule) -> None:
        self._centre = centre
        self._parts = 2 if rule.tracks_weights else 1

    @staticmethod
    def first_state(weights: np.ndarray, rule: CentreRule) -> np.ndarray:
        """State of a node's centre if all replicas have these *weights*."""
        return np.concatenate([weights, weights]) if rule.tracks_weights else weights

    @property
    def tracked(self) -> np.ndarray:
        return self._split()[1]

    @tracked.setter
    def tracked(self, weights: np.ndarray) -> None:
        self._centre.state = np.concatenate([self._split()[0], weights])

    def read(self) -> np.ndarray:
        return self._split()[0].copy()

    def shift(self, by: np.ndarray) -> None:
        weights, tracked = self._split()
        self._centre.state = np.concatenate([weights + by, tracked])

    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        size = self._centre.state.size // self._parts
        return self._centre.state[:size], self._centre.state[size:]


class CentreWorker:
    """A worker that pushes in turn: *rule* applied to *weights*. All methods are local."""

    def __init__(self, rule: CentreRule, weights: WorkerWeights) -> None:
        self._rule = rule
        self._weights = weights
        self._sent: tuple[Sent, ...] = ()

    def push(self, share: float) -> np.ndarray:
        """Vector to send to the server, always of the same shape (n,) and dtype.

        Args:
            share: share of this worker among all workers of the centre, from 0 to 1.
        """
        vector, memory = self._rule.push(self._weights.read(), share, self._memory)
        self._keep(memory)
        return vector

    def apply(self, answer: np.ndarray) -> None:
        """Move by the server's *answer* to the oldest push without an answer."""
        shift, memory = self._rule.apply(answer, self._memory)
        self._keep(memory)
        self._weights.shift(shift)

    def cancel(self, unserved: np.ndarray | None) -> None:
        """Forget all pushes under way, which will not be answered.

        Args:
            unserved: vector that this worker pushed and no server has seen; None if there is none.
        """
        self._keep(self._rule.cancel(unserved, self._memory))

    def reset(self, centre: np.ndarray) -> None:
        """Start from *centre*, the common state of the centre, after :meth:`cancel`."""
        shift, memory = self._rule.reset(centre, self._memory)
        self._keep(memory)
        if shift is not None:
            self._weights.shift(shift)

    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        """Answers to *pushes*: see :meth:`CentreRule.serve`."""
        return self._rule.serve(centre, pushes, groups)

    def fallback(self) -> np.ndarray:
        """Estimate of the centre by this worker, used if every rank that knew it has died."""
        return self._rule.fallback(self._weights.read(), self._memory)

    @property
    def _memory(self) -> WorkerMemory:
        return WorkerMemory(self._weights.tracked, self._sent)

    def _keep(self, memory: WorkerMemory) -> None:
        self._sent = memory.sent
        if memory.tracked.size:
            self._weights.tracked = memory.tracked
