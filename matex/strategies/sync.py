"""Synchronous averaging: every replica makes the same update, from the whole batch."""

from __future__ import annotations

from matex.strategies.interface import Strategy

__all__ = ["Sync"]


class Sync(Strategy):
    """Synchronous strategy, the only one whose result does not depend on the number of ranks.

    The step's own collective sums the gradients, so nothing else is communicated.
    """

    name = "sync"
    sums_gradients = True
