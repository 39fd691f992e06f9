"""The interface of a strategy: where gradients and weights travel, and what the one model is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

__all__ = ["ReplicaLike", "Strategy", "Traffic"]


class Traffic(NamedTuple):
    """Messages and bytes that one rank handed to MPI, beside the one collective of a step."""

    messages: int = 0
    bytes: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Sum of both, by element."""
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)


class ReplicaLike(Protocol):
    """A model and its optimizer's state as one flat vector, such as
    `matex.fitting.replica_vector`."""

    weights: int
    """Number of weights, which are the first elements of the vector."""

    def read(self) -> np.ndarray:
        """Copy of the vector, of shape (n,). Local."""

    def write(self, vector: np.ndarray) -> None:
        """Set the model and its optimizer's state to *vector*, of shape (n,). Local."""

    def magnitudes(self, vector: np.ndarray) -> np.ndarray:
        """Mask, of shape (n,), of the optimizer's variables that were never negative. Local.

        Such are second moments, and sums of squares.

        Args:
            vector: copy that :meth:`read` made after an update.
        """


class Strategy:
    """Base of the strategies: one way to share the work of a fit, for one replica of its model.

    Whatever the strategy, a step has one collective that carries metrics, statistics and the
    proof of its samples, and that survives deaths. A strategy says whether the gradients travel
    in it, and moves weights around it. The methods here do nothing, so a strategy defines only
    those that it needs.

    No method raises for the death of a peer: that belongs to the step's collective, which finds
    it at the latest in the next step. A message that a dead rank owes is left out.
    """

    name: str
    """The strategy's word on the command line."""

    sums_gradients: ClassVar[bool] = False
    """Whether the step's collective carries the gradients, so that replicas stay equal. Otherwise
    each rank updates by the mean gradient over its own rows, and replicas part until
    :meth:`consensus`."""

    averages_gradients: ClassVar[bool] = False
    """Whether gradients that the step's collective does not carry go through
    :meth:`average_gradients` before they are applied."""

    traffic: Traffic = Traffic()
    """The traffic of the newest step, from :meth:`before_step` to :meth:`after_step`. Local."""

    def epoch_begins(self, epoch: int) -> None:
        """Prepare for *epoch*, counted from 0, before its first step still to be made. Local."""

    def before_step(self, step: int) -> None:
        """Prepare for *step*, before its rows are computed.

        Every member calls it with the same number, and must not wait for another in it.
        """

    def average_gradients(self, step: int, gradients: np.ndarray) -> np.ndarray:
        """Mean of the *gradients* of the ranks that make one update of *step* together.

        Every member calls it between the collective of *step* and its update.

        Args:
            gradients: vector of shape (n,): the sum over this rank's rows of all gradients, in a
                unit of the step, and last the number of these rows. What is returned is divided by
                its last element, so that the mean is one over rows.
        """
        return gradients

    def after_step(self, step: int) -> None:
        """Exchange what is due after the update of *step*; every member calls it."""

    def consensus(self) -> None:
        """Make every replica the one model that is evaluated and saved; collective.

        Recovers by itself; afterwards weights and optimizer state are equal on all members.
        """

    def epoch_ended(self, loss: float | None) -> None:
        """Take note of the *loss* of an epoch, equal on all members, after its consensus. Local."""

    def report(self) -> dict[str, Any]:
        """Fields of the event of an epoch, as JSON; counts are since the last call. Local."""
        return {}

    def replicas(self, ranks: Sequence[int]) -> int:
        """Number of replicas of *ranks* that update by gradients of their own. Local.

        Equal on all members. ``--lr-scaling`` without ``--batch-per-rank`` counts them.
        """
        return len(ranks)

    def pace(self) -> float:
        """Movement of the one model in a step, relative to that of a replica alone. Local.

        Equal on all members. ``--lr-scaling`` divides the learning rate by it.
        """
        return 1.0
