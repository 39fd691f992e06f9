"""Interface of a strategy: how gradients and weights are communicated, and which model counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from matex.exchange.traffic import Traffic

__all__ = ["ReplicaLike", "Strategy"]


class ReplicaLike(Protocol):
    """A model's weights and its optimizer's state as one flat vector, such as
    `matex.fitting.replica_vector`."""

    weights: int
    """Number of weights, the first elements of the vector."""

    def read(self) -> np.ndarray:
        """Copy of the vector, of shape (n,). Local."""

    def write(self, vector: np.ndarray) -> None:
        """Set the model and its optimizer's state to *vector*, of shape (n,). Local."""

    def magnitudes(self, *vectors: np.ndarray) -> np.ndarray:
        """Mask, of shape (n,), of the optimizer's variables that are never negative. Local.

        Examples are second moments and sums of squares. It follows from the arguments alone, so
        that a run that goes on from a checkpoint has the same one.

        Args:
            vectors: copies that :meth:`read` made, here or on other ranks.
        """


class Strategy:
    """Base class of strategies: a way to share the work of a fit, for one replica of its model.

    With every strategy a step has one collective that carries metrics, statistics and the proof of
    its samples, and that survives deaths. A strategy defines whether this collective carries the
    gradients, and communicates weights around it. The methods here do nothing, so a strategy
    defines only the methods that it needs.

    No method raises when a peer dies: the step's collective finds the death, in the next step at
    the latest. A message that a dead rank owes is skipped.
    """

    name: str
    """Name of the strategy on the command line."""

    sums_gradients: ClassVar[bool] = False
    """Whether the step's collective carries the gradients, so that replicas stay equal. Otherwise
    each rank updates by the mean gradient over its own rows, and replicas diverge until
    :meth:`consensus`."""

    averages_gradients: ClassVar[bool] = False
    """Whether gradients that the step's collective does not carry go through
    :meth:`average_gradients` before they are applied."""

    moves_weights_alone: ClassVar[bool] = False
    """Whether it moves weights and leaves the optimizer's state as it is. An optimizer that makes
    weights of its state alone would take such moves back."""

    traffic: Traffic = Traffic()
    """Traffic of the newest step, from :meth:`before_step` to :meth:`after_step`. Local."""

    def epoch_begins(self, epoch: int) -> None:
        """Prepare for *epoch*, counted from 0, before its first remaining step. Local."""

    def before_step(self, step: int) -> None:
        """Prepare for *step*, before its rows are computed.

        Every member calls it with the same number, and must not wait for other members in it.
        """

    def step_declined(self, step: int) -> None:
        """End what :meth:`before_step` began for *step*, which is not made.

        Every member calls it, after the collective of *step*, in place of :meth:`after_step`.
        """

    def average_gradients(self, step: int, gradients: np.ndarray) -> np.ndarray:
        """Mean of *gradients* over the ranks that make one update of *step* together.

        Every member calls it between the collective of *step* and the update.

        Args:
            gradients: vector of shape (n,): this rank's sum of all gradients over its rows, in a
                unit of the step, and as last element the number of these rows. The caller divides
                the result by its last element, so that the mean is over rows.
        """
        return gradients

    def after_step(self, step: int) -> None:
        """Make the exchanges that are due after the update of *step*; every member calls it."""

    def consensus(self) -> None:
        """Set every replica to the one model that is evaluated and saved; collective.

        Recovers by itself; afterwards weights and optimizer state are equal on all members.
        """

    def saved_state(self) -> dict[str, np.ndarray]:
        """State beside the replica that a checkpoint keeps, as it is after a consensus. Local.

        It is equal on all members; names and shapes are the strategy's own.
        """
        return {}

    def restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved *state*, before the first step. Local.

        Args:
            state: result of :meth:`saved_state` in the run before, which may have had other
                options; empty if it had another strategy.
        """

    def epoch_ended(self, loss: float | None) -> None:
        """Receive the *loss* of an epoch, equal on all members, after its consensus. Local."""

    def report(self) -> dict[str, Any]:
        """Fields of the event of an epoch, as JSON values; counts since the last call. Local."""
        return {}

    def replicas(self, ranks: Sequence[int]) -> int:
        """Number of replicas of *ranks* that update by their own gradients. Local.

        Equal on all members. ``--lr-scaling`` without ``--batch-per-rank`` counts them.
        """
        return len(ranks)

    def pace(self) -> float:
        """Movement of the one model per step, relative to a single replica's. Local.

        Equal on all members. ``--lr-scaling`` divides the learning rate by it.
        """
        return 1.0
