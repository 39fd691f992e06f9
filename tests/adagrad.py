"""Adagrad in NumPy, as an optimizer that a centre has."""

from __future__ import annotations

import numpy as np

__all__ = ["Adagrad"]


class Adagrad:
    """Adagrad, whose slots are the sums of squares, and the number of updates behind them."""

    kind = "adagrad"

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def first_slots(self, weights: np.ndarray) -> np.ndarray:
        return np.append(np.full_like(weights, 0.1), weights.dtype.type(0))

    def updated(
        self, weights: np.ndarray, slots: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        squares = slots[:-1] + gradient**2
        after = weights - self._rate * gradient / np.sqrt(squares)
        return after, np.append(squares, slots[-1] + 1)
