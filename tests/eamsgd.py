"""The step of EAMSGD as its paper writes it (arXiv:1412.6651), to compare with."""

from __future__ import annotations

import numpy as np


def nesterov(
    worker: np.ndarray, velocity: np.ndarray, gradient: np.ndarray, *, rate: float,
    momentum: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """EAMSGD's own step; *gradient* is that at ``worker + momentum * velocity``.

    Keras's SGD with ``nesterov=True`` makes it, and holds that point in place of *worker*.
    """
    velocity = momentum * velocity - rate * gradient
    return worker + velocity, velocity
