"""Downpour SGD: workers push what they have moved, and pull what the centre has by then.

(Dean et al., Large Scale Distributed Deep Networks, 2012.) The staleness of a push
is the number of updates that the centre has made since that worker pulled; a push
counts for as much less (arXiv:1511.05950). M workers that do not wait for each other act
as a momentum of 1 - 1/M by themselves (arXiv:1606.04487).

In two levels the master of a node is a worker of the one above: it pushes what its own has moved
by the pushes of its node, and goes on from what the upper one has become. That is not to move by
more than the mean of the nodes: M / (M - 1) on both levels swings, where M is 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matex.strategies.rules.centre import CentreOptimizer, Push

__all__ = ["explicit_momentum", "optimized_state", "rate_for", "updated", "updated_state"]


def explicit_momentum(wanted: float, workers: int) -> float:
    """Momentum to add for a *wanted* momentum in all, with so many living workers."""
    return max(0.0, wanted - (1 - 1 / workers))


def rate_for(rate: float, staleness: int) -> float:
    """The learning rate divided by the staleness of what it is applied to."""
    return rate / max(1, staleness)


def updated(
    centre: np.ndarray,
    velocity: np.ndarray | None,
    pushes: Sequence[Push],
    *,
    momentum: float = 0.0,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Centre and velocity after one update by some *pushes*.

    Args:
        velocity: velocity of the momentum, of the centre's shape; None where there is none.
        pushes: movements of workers; the share of each is one by the number of workers that push
            together, so that as many as there are make their mean.
    """
    change = _change(centre, pushes)
    if velocity is not None:
        velocity = centre.dtype.type(momentum) * velocity + change
        change = velocity
    return centre + change, velocity


def _change(centre: np.ndarray, pushes: Sequence[Push]) -> np.ndarray:
    change = np.zeros_like(centre)
    for moved, share, staleness in pushes:
        change += moved * centre.dtype.type(rate_for(share, staleness))
    return change


def optimized_state(
    state: np.ndarray, pushes: Sequence[Push], *, size: int, optimizer: CentreOptimizer
) -> np.ndarray:
    """The centre, its *size* weights and the slots behind them, after one update by *optimizer*.

    ``gradient = -sum(share / max(1, staleness) * moved)``: SGD at a rate of 1 adds the pushes up
    as they are. (Adagrad at the centre is in Dean et al., 2012; optimizers of movements instead of
    gradients are in Reddi et al., arXiv:2003.00295.)
    """
    weights, slots = state[:size], state[size:]
    return np.concatenate(optimizer.updated(weights, slots, -_change(weights, pushes)))


def updated_state(
    state: np.ndarray, pushes: Sequence[Push], *, size: int, momentum: float, groups: int
) -> np.ndarray:
    """The centre, its *size* weights and what follows them, after one update.

    Args:
        momentum: total momentum; 0 where it is no velocity that follows the weights.
        groups: number of groups in which the workers push.
    """
    weights, rest = state[:size], state[size:]
    after, velocity = updated(
        weights,
        rest if momentum else None,
        pushes,
        momentum=explicit_momentum(momentum, groups),
    )
    return np.concatenate([after, rest if velocity is None else velocity])
