"""Downpour SGD: workers push their movement, and pull the current centre.

(Dean et al., Large Scale Distributed Deep Networks, 2012.) The staleness of a push is the number of
updates of the centre since its worker pulled; a push is divided by it (arXiv:1511.05950). M workers
that do not wait for each other act as a momentum of 1 - 1/M by themselves (arXiv:1606.04487).

On two levels the server of a node is a worker of the upper centre: it pushes the movement of its
centre by the pushes of its node, and goes on from the upper centre. The upper centre must not move
by more than the mean of the nodes: M / (M - 1) on both levels oscillates for M = 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matex.strategies.rules.centre import CentreOptimizer, Push

__all__ = ["explicit_momentum", "optimized_state", "rate_for", "updated", "updated_state"]


def explicit_momentum(wanted: float, workers: int) -> float:
    """Momentum to add for a total momentum *wanted*, with this number of living workers."""
    return max(0.0, wanted - (1 - 1 / workers))


def rate_for(rate: float, staleness: int) -> float:
    """Learning rate divided by the staleness of the push that it scales."""
    return rate / max(1, staleness)


def updated(
    centre: np.ndarray,
    velocity: np.ndarray | None,
    pushes: Sequence[Push],
    *,
    momentum: float = 0.0,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Centre and velocity after one update by *pushes*.

    Args:
        velocity: velocity of the momentum, of the centre's shape; None without momentum.
        pushes: movements of workers; each share is 1 / number of workers that push together, so
            that the sum is their mean.
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
    """State of the centre, *size* weights and then slots, after one update by *optimizer*.

    ``gradient = -sum(share / max(1, staleness) * moved)``: SGD at a rate of 1 adds the pushes
    unchanged. (Adagrad at the centre is in Dean et al., 2012; optimizers of movements instead of
    gradients are in Reddi et al., arXiv:2003.00295.)
    """
    weights, slots = state[:size], state[size:]
    return np.concatenate(optimizer.updated(weights, slots, -_change(weights, pushes)))


def updated_state(
    state: np.ndarray, pushes: Sequence[Push], *, size: int, momentum: float, groups: int
) -> np.ndarray:
    """State of the centre, *size* weights and then its other elements, after one update.

    Args:
        momentum: total momentum; 0 if the elements after the weights are no velocity.
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
