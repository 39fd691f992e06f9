"""Elastic averaging: EASGD and EAMSGD (arXiv:1412.6651).

Workers explore around a centre that follows them. Every ``tau`` steps an elastic force
``alpha = beta / workers`` pulls worker and centre towards each other.

In a tree (EASGD Tree, arXiv:1605.02216) the centres of the nodes are the workers of the upper
centre, with which they exchange more seldom, by the same equations.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "BETA",
    "drawn",
    "force",
    "pace",
    "pull",
    "pull_together",
    "pulled_by",
]

BETA = 0.9


def force(share: float, beta: float = BETA) -> float:
    """Force alpha of a worker with this *share* of the living workers, which is 1 / their number if
    all are equal. It must be computed anew after a death.

    """
    return beta * share


def pace(workers: int, centres: int = 1) -> float:
    """Ratio of the movement of all workers in a step to that of a single worker.

    Pulls keep the sum of workers and centres, and a centre makes no step of its own.
    """
    return workers / (workers + centres)


def pull(worker: np.ndarray, centre: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Worker and centre after one worker has met the centre (asynchronous); their sum is kept."""
    distance = alpha * (worker - centre)
    return worker - distance, centre + distance


def pulled_by(worker: np.ndarray, after: np.ndarray, alpha: float) -> np.ndarray:
    """Move of a *worker* that met the centre, from the centre *after* the meeting.

    ``after - worker`` is ``(1 - alpha)`` of their distance before, so the move equals
    :func:`pull`'s.
    """
    return np.asarray(alpha / (1 - alpha) * (after - worker))


def pull_together(
    worker: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float, beta: float = BETA
) -> tuple[np.ndarray, np.ndarray]:
    """Worker and centre after all workers, with this *mean*, have met the centre (synchronous).

    ``centre + alpha * sum(worker - centre)`` is ``(1 - beta) centre + beta mean``, with the mean
    weighted by the workers' shares: each worker can hold a copy of the centre, and there is no
    server to lose.
    """
    alpha = force(share, beta)
    return worker - alpha * (worker - centre), drawn(mean, centre, beta=beta)


def drawn(mean: np.ndarray, centre: np.ndarray, *, beta: float = BETA) -> np.ndarray:
    """The centre after it has met workers with this *mean*.

    It is the mean of the results for single workers, each in place of *mean*.
    """
    return np.asarray(centre + beta * (mean - centre))
