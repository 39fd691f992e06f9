"""Synchronous averaging: every replica makes the same update, from the whole batch."""

from __future__ import annotations

from matex.strategies.interface import Strategy

__all__ = ["Sync"]


class Sync(Strategy):
    """The only strategy whose result does not depend on the number of ranks.

    The gradients are summed in the step's own collective, so there is nothing left to do.
    """

    name = "sync"
    sums_gradients = True
