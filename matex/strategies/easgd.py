"""Synchronous EASGD: ranks explore for some steps, then meet a centre (arXiv:1412.6651).

All ranks meet at once, so each can hold a copy of the centre, equal to the last bit:
there is no master, and none to lose.
"""

from __future__ import annotations

import numpy as np

import ft
from matex.strategies.interface import ReplicaLike, Traffic
from matex.strategies.mean import mean
from matex.strategies.rules.elastic import BETA, TAU, pull_together

__all__ = ["Elastic"]


class Elastic:
    """One collective of the weights every *tau* steps. Momenta stay with their rank.

    The one model is the centre. At a consensus the workers start from it anew.

    Args:
        replica: of this rank; equal on all when training starts.
        tau: steps between meetings.
        beta: the force of all workers together; each has beta / living workers.
    """

    name = "easgd"
    sums_gradients = False

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        tau: int = TAU,
        beta: float = BETA,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._tau = tau
        self._beta = beta
        self._centre: np.ndarray | None = None
        self._distance = 0.0
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._centre is None:
            self._centre = self._replica.read()[: self._replica.weights]

    def after_step(self, step: int) -> None:
        if (step + 1) % self._tau:
            return
        own = self._replica.read()
        weights = own[: self._replica.weights]
        middle, workers = mean(self._communicator, weights)
        weights[:] = self._meet(weights, middle, workers)
        self._replica.write(own)
        self.traffic = Traffic(1, weights.nbytes)

    def consensus(self) -> None:
        """The workers meet the centre, and then are the centre; momenta become their mean."""
        if self._centre is None:  # no step was made
            return
        own, count = self._replica.read(), self._replica.weights
        middle, workers = mean(self._communicator, own)
        self._meet(own[:count], middle[:count], workers)
        middle[:count] = self._centre
        self._replica.write(middle)
        self._centre = None  # a callback may change the model before the next step

    def _meet(self, own: np.ndarray, middle: np.ndarray, workers: int) -> np.ndarray:
        """This worker's weights afterwards."""
        assert self._centre is not None
        norm = float(np.linalg.norm(self._centre))
        self._distance = float(np.linalg.norm(own - self._centre)) / norm if norm else 0.0
        pulled, self._centre = pull_together(
            own, middle, self._centre, workers=workers, beta=self._beta
        )
        return pulled

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, float]:
        """How far this worker was from the centre, relative to that, at the last meeting."""
        return {"disagreement": self._distance}
