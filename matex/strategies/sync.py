"""Synchronous averaging: every replica makes the same update, from the whole batch."""

from __future__ import annotations

from typing import Any

from matex.strategies.interface import Traffic

__all__ = ["Sync"]


class Sync:
    """The only strategy whose result does not depend on the number of ranks.

    The gradients are summed in the step's own collective, so there is nothing left to do.
    """

    name = "sync"
    sums_gradients = True
    traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        """Nothing: replicas are equal."""

    def after_step(self, step: int) -> None:
        """Nothing: the same update was made everywhere."""

    def consensus(self) -> None:
        """Nothing: each replica is the one model."""

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, Any]:
        return {}
