"""Mathematics of a centre strategy: workers that explore around a centre. Pure.

A *worker* is a replica of the model or, on two levels, the centre of a node. Every few steps it
exchanges vectors with the centre, by :mod:`matex.strategies.centre`. A rule defines these vectors,
and the new weights of worker and centre. It neither communicates nor holds state: it takes arrays
and returns new ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

__all__ = [
    "CentreOptimizer",
    "CentreRule",
    "Consensus",
    "Push",
    "Sent",
    "WorkerMemory",
    "distance",
]


class Push(NamedTuple):
    """A worker's message, as received by the server."""

    vector: np.ndarray
    share: float
    """Share of this worker among all workers of the centre, from 0 to 1."""
    staleness: int
    """Number of updates of the centre since the worker last received it."""


class Sent(NamedTuple):
    """A push without an answer, as remembered by the worker."""

    weights: np.ndarray
    """Weights of the worker when it pushed, of shape (n,)."""
    share: float


class WorkerMemory(NamedTuple):
    """State of a worker beside its weights; immutable."""

    tracked: np.ndarray
    """Weights at the last push, or at the start, with changes of the centre received since; of
    shape (n,), or (0,) for a rule that does not track them. Not to be written in place."""
    sent: tuple[Sent, ...] = ()
    """Pushes without an answer, oldest first."""


class Consensus(NamedTuple):
    """The one model, and the distance measured on the way to it."""

    weights: np.ndarray
    distance: float | None = None
    """Relative distance of this worker from the centre; None if none was measured."""
    slots: np.ndarray | None = None
    """Slots of the centre's optimizer after it; None if the centre has no optimizer."""


class CentreOptimizer(Protocol):
    """An optimizer with all state in arguments and results, so that any rank can continue it."""

    @property
    def kind(self) -> str:
        """Text that is equal for optimizers that can continue from each other's slots."""

    def first_slots(self, weights: np.ndarray) -> np.ndarray:
        """Slots before the first update of *weights*: shape (s,), dtype of the weights."""

    def updated(
        self, weights: np.ndarray, slots: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and slots after one update by *gradient*, of the shape of *weights*."""


class CentreRule(ABC):
    """Rules by which workers and a centre exchange vectors. Pure.

    Weights and pushes are vectors of shape (n,); the centre's state has shape (m,), and its first n
    elements are weights. All have one dtype, which results keep, and no argument is written.

    A rule must define :meth:`push`, :meth:`serve` and :meth:`apply`, for workers that push in
    turn, and :meth:`meet`, for workers that push all at once. The other methods suit a rule whose
    workers remember nothing between two pushes, and whose one model is the mean of the replicas.
    """

    name: ClassVar[str]
    """Name of the strategy on the command line."""

    tracks_weights: ClassVar[bool] = False
    """Whether a worker has :attr:`WorkerMemory.tracked`. On two levels a node's centre then has
    as many more elements, so that they travel with it to its next server."""

    keeps_node_centres: ClassVar[bool] = True
    """Whether nodes whose ranks push all at once keep a centre each, which pushes to the upper
    one. Otherwise the ranks of a node are set to their mean between two pushes of all ranks."""

    @property
    def within_nodes(self) -> CentreRule:
        """Rule of ranks and their node's centre, if they push in turn on two levels."""
        return self

    @property
    def between_nodes(self) -> CentreRule:
        """Rule of the nodes' centres and the upper centre, if they push in turn."""
        return self

    # A replica as a worker.

    def position(self, replica: np.ndarray, count: int) -> np.ndarray:
        """Weights that a worker exchanges, from a *replica* with *count* weights first."""
        return replica[:count].copy()

    def placed(self, replica: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """*replica* after its position has moved from *before* to *after*."""
        return np.concatenate([after, replica[after.size :]])

    def first_centre(self, weights: np.ndarray) -> np.ndarray:
        """State of the centre if all replicas have these *weights*."""
        return weights

    def pace(self, workers: int, centres: int) -> float:
        """Movement of the one model per step, relative to that of each of the *workers* alone."""
        return 1.0

    # Workers that push in turn. Further steps are made between a push and its answer.

    @abstractmethod
    def push(
        self, weights: np.ndarray, share: float, memory: WorkerMemory
    ) -> tuple[np.ndarray, WorkerMemory]:
        """Vector pushed by a worker with these *weights*, and its memory after the push."""

    @abstractmethod
    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        """Answers to *pushes* that arrived together; the last answer is the new centre.

        Args:
            groups: number of groups in which the workers push in turn.
        """

    @abstractmethod
    def apply(self, answer: np.ndarray, memory: WorkerMemory) -> tuple[np.ndarray, WorkerMemory]:
        """Shift of a worker's weights by the *answer* to its oldest push, and its new memory."""

    def cancel(self, unserved: np.ndarray | None, memory: WorkerMemory) -> WorkerMemory:
        """Memory of a worker after all its pushes have ended without an answer.

        Args:
            unserved: vector that the worker pushed and no server has seen; None if there is none.
        """
        return memory._replace(sent=())

    def reset(
        self, centre: np.ndarray, memory: WorkerMemory
    ) -> tuple[np.ndarray | None, WorkerMemory]:
        """Shift of a worker that starts from *centre* after :meth:`cancel`, None for no shift, and
        its new memory."""
        return None, memory

    def fallback(self, weights: np.ndarray, memory: WorkerMemory) -> np.ndarray:
        """Estimate of the centre's state by a worker, used if all ranks that knew it have died."""
        return weights

    # Workers that push all at once: each knows the mean, and so has a copy of the centre.

    def contribution(self, weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Vector of a worker for the mean over the workers."""
        return weights

    @abstractmethod
    def meet(
        self, weights: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of a worker and the centre, after an exchange with this *mean* of contributions.

        Args:
            share: share of this worker among all workers that contribute, from 0 to 1.
        """

    # The one model.

    def final(self, weights: np.ndarray, node_centre: np.ndarray | None) -> np.ndarray:
        """Vector of a rank for the last mean, in place of its *weights*.

        Args:
            node_centre: state of its node's centre; None on one level.
        """
        return weights

    def consensus(self, final: np.ndarray, mean: np.ndarray, centre: np.ndarray) -> Consensus:
        """The one model, from a rank's *final* vector, the *mean* of all, and the *centre*."""
        return Consensus(mean)

    def continued(self, made: Consensus) -> CentreRule:
        """Rule for the exchanges that restart from the one model *made*."""
        return self

    def saved_state(self) -> dict[str, np.ndarray]:
        """State that the rule keeps over a consensus, for a checkpoint."""
        return {}

    def restored(self, state: Mapping[str, np.ndarray]) -> CentreRule:
        """Rule that continues from a saved *state*, perhaps of one with other options."""
        return self


def distance(own: np.ndarray, other: np.ndarray) -> float:
    """Distance of *own* from *other*, relative to the norm of *other*; 0 if that norm is 0."""
    norm = float(np.linalg.norm(other))
    return float(np.linalg.norm(own - other)) / norm if norm else 0.0
