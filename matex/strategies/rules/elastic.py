"""Elastic averaging: EASGD and EAMSGD (arXiv:1412.6651).

Workers explore around a centre that follows them. Every ``tau`` steps a spring of
force ``alpha = beta / workers`` pulls worker and centre towards each other.

In a tree (EASGD Tree, arXiv:1605.02216) the centres of the nodes are the workers of the one above
them, which they meet more seldom, by the same equations.
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
    """alpha of one with this *share* of the living workers, 1 by their number where all are equal.

    To be computed anew when one dies.
    """
    return beta * share


def pace(workers: int, centres: int = 1) -> float:
    """Ratio of the movement of all in a step to that of each alone.

    Pulls keep the sum of workers and centres, and a centre brings no step of its own.
    """
    return workers / (workers + centres)


def pull(worker: np.ndarray, centre: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Asynchronous: one worker meets the centre; both after it. Their sum stays."""
    distance = alpha * (worker - centre)
    return worker - distance, centre + distance


def pulled_by(worker: np.ndarray, after: np.ndarray, alpha: float) -> np.ndarray:
    """The move of a *worker* that met the centre, computed from the centre *after* it.

    ``after - worker`` is ``(1 - alpha)`` of their distance before, so this is :func:`pull`'s.
    """
    return np.asarray(alpha / (1 - alpha) * (after - worker))


def pull_together(
    worker: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float, beta: float = BETA
) -> tuple[np.ndarray, np.ndarray]:
    """Synchronous: all workers, whose *mean* by their shares is known, meet the centre at once.

    One worker and the centre after it. ``centre + alpha * sum(worker - centre)`` is
    ``(1 - beta) centre + beta mean``: each worker can hold a copy of the centre, and
    there is no master to lose.
    """
    alpha = force(share, beta)
    return worker - alpha * (worker - centre), drawn(mean, centre, beta=beta)


def drawn(mean: np.ndarray, centre: np.ndarray, *, beta: float = BETA) -> np.ndarray:
    """The centre after that.

    It is the mean of what single workers would make of it, each in place of *mean*.
    """
    return np.asarray(centre + beta * (mean - centre))
