"""The mathematics of a centre strategy, pure: workers that explore around a centre.

A *worker* is a replica of the model, or with two levels the centre of a node. Every few steps it
exchanges vectors with the centre, which :mod:`matex.strategies.centre` carries. A rule says what
these are, and what worker and centre become. It neither communicates nor keeps anything: arrays
go in, and new ones come out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    """A worker's message as the server has it."""

    vector: np.ndarray
    share: float
    """Share of this worker among all that push to the centre, from 0 to 1."""
    staleness: int
    """Updates of the centre since the worker last received it."""


class Sent(NamedTuple):
    """A push that has not been answered yet, as the worker remembers it."""

    weights: np.ndarray
    """Weights of the worker when it pushed, of shape (n,)."""
    share: float


class WorkerMemory(NamedTuple):
    """The state of a worker beside its weights; immutable."""

    tracked: np.ndarray
    """Weights at the last push, or at the start, with what has come from the centre since; of
    shape (n,), or (0,) for a rule that does not track them. Not to be written in place."""
    sent: tuple[Sent, ...] = ()
    """Pushes that have not been answered, the oldest first."""


class Consensus(NamedTuple):
    """The one model, and the distance that was measured on the way to it."""

    weights: np.ndarray
    distance: float | None = None
    """Relative distance of this worker from the centre; None where none was measured."""
    slots: np.ndarray | None = None
    """Slots of the centre's optimizer from then on; None where it has no optimizer."""


class CentreOptimizer(Protocol):
    """An optimizer whose state is in the vectors that it is given, so that any rank may go on."""

    def first_slots(self, weights: np.ndarray) -> np.ndarray:
        """Slots before the first update of *weights*, of shape (s,) and their dtype."""

    def updated(
        self, weights: np.ndarray, slots: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and slots after one update by *gradient*, of the shape of the weights."""


class CentreRule(ABC):
    """Rules by which workers and a centre exchange vectors. Pure.

    Weights and pushes are vectors of shape (n,); the centre's is of shape (m,), and its first n
    elements are weights. All have one dtype, which results keep, and no argument is written.

    A rule must define :meth:`push`, :meth:`serve` and :meth:`apply`, for workers that push in
    turn, and :meth:`meet`, for all at once. The other methods suit a rule whose workers remember
    nothing between two pushes, and whose one model is the mean of the replicas.
    """

    name: ClassVar[str]
    """The strategy's word on the command line."""

    tracks_weights: ClassVar[bool] = False
    """Whether a worker has :attr:`WorkerMemory.tracked`. With two levels a node's centre then has
    as many elements more, so that they travel with it to the next rank that serves it."""

    keeps_node_centres: ClassVar[bool] = True
    """Whether nodes whose ranks push all at once keep a centre each, which pushes to the one
    above. Otherwise the ranks of a node become their mean between two pushes of all ranks."""

    @property
    def within_nodes(self) -> CentreRule:
        """Rule of ranks and their node's centre, where they push in turn on two levels."""
        return self

    @property
    def between_nodes(self) -> CentreRule:
        """Rule of the nodes' centres and the one above them, where they push in turn."""
        return self

    # A replica as a worker.

    def position(self, replica: np.ndarray, count: int) -> np.ndarray:
        """Weights by which a worker takes part, of a *replica* of which *count* elements are."""
        return replica[:count].copy()

    def placed(self, replica: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """The *replica* when its position has moved from *before* to *after*."""
        return np.concatenate([after, replica[after.size :]])

    def first_centre(self, weights: np.ndarray) -> np.ndarray:
        """State of the centre when all replicas have these *weights*."""
        return weights

    def pace(self, workers: int, centres: int) -> float:
        """Movement of the whole in a step, relative to what each of the *workers* makes alone."""
        return 1.0

    # Workers that push in turn. Other steps are made between a push and its answer.

    @abstractmethod
    def push(
        self, weights: np.ndarray, share: float, memory: WorkerMemory
    ) -> tuple[np.ndarray, WorkerMemory]:
        """Vector that a worker with these *weights* pushes, and its memory with the push sent."""

    @abstractmethod
    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        """Answers to *pushes*, which have come together; the last is the centre from then on.

        Args:
            groups: number of groups in which the workers push in turn.
        """

    @abstractmethod
    def apply(self, answer: np.ndarray, memory: WorkerMemory) -> tuple[np.ndarray, WorkerMemory]:
        """Shift of a worker's weights for the *answer* to its oldest push, and its memory then."""

    def cancel(self, unserved: np.ndarray | None, memory: WorkerMemory) -> WorkerMemory:
        """Memory of a worker when all its pushes have ended, and none will be answered.

        Args:
            unserved: vector that the worker pushed and no server has seen, if any.
        """
        return memory._replace(sent=())

    def reset(
        self, centre: np.ndarray, memory: WorkerMemory
    ) -> tuple[np.ndarray | None, WorkerMemory]:
        """Shift of a worker that starts from *centre* after :meth:`cancel`, None for none, and its
        memory then."""
        return None, memory

    def fallback(self, weights: np.ndarray, memory: WorkerMemory) -> np.ndarray:
        """Estimate by a worker of the centre's state, used when all who knew it have died."""
        return weights

    # Workers that push all at once: each knows the mean, and so has a copy of the centre.

    def contribution(self, weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Vector of a worker that goes into the mean over the workers."""
        return weights

    @abstractmethod
    def meet(
        self, weights: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of a worker, and the centre, after all contributions with this *mean*.

        Args:
            share: share of this worker among all that contribute, from 0 to 1.
        """

    # The one model.

    def final(self, weights: np.ndarray, node_centre: np.ndarray | None) -> np.ndarray:
        """Vector of a rank that goes into the last mean, in place of its *weights*.

        Args:
            node_centre: state of the centre of its node; None where there is one level.
        """
        return weights

    def consensus(self, final: np.ndarray, mean: np.ndarray, centre: np.ndarray) -> Consensus:
        """The one model, from a rank's *final* vector, the *mean* of all, and the *centre*."""
        return Consensus(mean)

    def continued(self, made: Consensus) -> CentreRule:
        """Rule of the exchanges that begin anew from the one model *made*."""
        return self


def distance(own: np.ndarray, other: np.ndarray) -> float:
    """Distance of *own* from *other*, relative to the norm of that; 0 where that is 0."""
    norm = float(np.linalg.norm(other))
    return float(np.linalg.norm(own - other)) / norm if norm else 0.0
