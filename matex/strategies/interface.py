"""What a strategy decides: where gradients and weights travel, and what the one model is."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["ReplicaLike", "Strategy", "Traffic"]


class Traffic(NamedTuple):
    """What one rank handed to MPI, beside the one collective of a step."""

    messages: int = 0
    bytes: int = 0


class ReplicaLike(Protocol):
    """A model and its optimizer's state as one flat vector: `matex.watch.replica`."""

    weights: int
    """How many elements of it, the first ones, are weights."""

    def read(self) -> np.ndarray:
        """A copy."""

    def write(self, vector: np.ndarray) -> None:
        """Let the model be *vector*."""


class Strategy(Protocol):
    """One way to share the work of a fit, for one replica of its model.

    Whatever it is, a step has one collective that carries metrics, statistics and
    the proof of its samples, and that survives deaths. A strategy says whether the
    gradients travel in it, and moves weights around it.

    No method raises for the death of a peer: that belongs to the step's collective,
    which finds it at the latest in the next step. What a strategy was about to get
    from the dead it leaves out.
    """

    name: str

    sums_gradients: bool
    """Whether the step's collective carries the gradients, so that replicas stay equal. Otherwise
    each rank updates by the mean gradient over its own rows, and replicas part until
    :meth:`consensus`."""

    traffic: Traffic
    """The traffic of the newest step, from :meth:`before_step` to :meth:`after_step`. Local."""

    def epoch_begins(self, epoch: int) -> None:
        """Before the first step of *epoch*, counted from 0, that is still to be made. Local."""

    def before_step(self, step: int) -> None:
        """Before the rows of *step* are computed; every member calls it with the same number."""

    def after_step(self, step: int) -> None:
        """After the update of *step*, made on every member."""

    def consensus(self) -> None:
        """Make every replica the one model that is evaluated and saved; collective.

        Recovers by itself; afterwards weights and optimizer state are equal on all members.
        """

    def epoch_ended(self, loss: float | None) -> None:
        """After the consensus of an epoch with this *loss*, equal on all members. Local."""

    def report(self) -> dict[str, Any]:
        """What the event of an epoch tells of the strategy, as JSON; counts since the last call.
        Local."""
