"""A replica that is but a vector, for strategies without a model."""

from __future__ import annotations

import numpy as np

__all__ = ["Vector"]


class Vector:
    """A model of five weights and a momentum of two numbers."""

    weights = 5

    def __init__(self) -> None:
        self.value = np.arange(7, dtype=np.float64)

    def read(self) -> np.ndarray:
        return self.value.copy()

    def write(self, vector: np.ndarray) -> None:
        self.value = vector.copy()

    def magnitudes(self, *vectors: np.ndarray) -> np.ndarray:
        return np.zeros(self.value.size, bool)
