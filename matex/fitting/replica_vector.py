"""A model's weights and its optimizer's state as one flat vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks

__all__ = ["ReplicaVector"]


class ReplicaVector:
    """The vector that strategies exchange: trainable weights, momenta and the like. Local.

    Its first ``weights`` elements are the weights. Variables that the step's collective keeps
    equal are not in it: BatchNorm statistics, counters, seeds and the learning rate.
    """

    def __init__(self, model: Any) -> None:
        optimizer = model.optimizer
        rate = keras_hooks.learning_rate_variable(optimizer)
        slots = [v for v in optimizer.variables if _is_floating(v) and v is not rate]
        self._variables = [*model.trainable_variables, *slots]
        self._sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in self._variables]
        self.weights = sum(self._sizes[: len(model.trainable_variables)])
        wide = any(np.dtype(_numpy(v)) == np.float64 for v in self._variables)
        self.dtype = np.dtype(np.float64 if wide else np.float32)

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def read(self) -> np.ndarray:
        """A copy, of shape (size,)."""
        vector = np.empty(self.size, self.dtype)
        for variable, view in zip(self._variables, self._views(vector), strict=True):
            view[:] = np.asarray(variable.numpy()).reshape(-1)
        return vector

    def write(self, vector: np.ndarray) -> None:
        """Let the model be *vector*, of shape (size,)."""
        for variable, view in zip(self._variables, self._views(vector), strict=True):
            variable.assign(view.reshape(variable.shape))

    def _views(self, vector: np.ndarray) -> list[np.ndarray]:
        return np.split(vector, np.cumsum(self._sizes)[:-1])


def _is_floating(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _numpy(variable: Any) -> str:
    return "float64" if str(variable.dtype) == "float64" else "float32"
