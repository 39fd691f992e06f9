"""A model's weights and its optimizer's state as one flat vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks

__all__ = ["ReplicaVector"]


class ReplicaVector:
    """The vector that strategies exchange: trainable weights, momenta and similar state. Local.

    Its first ``weights`` elements are the weights. It lacks the variables that the step's
    collective keeps equal: BatchNorm statistics, counters, seeds and the learning rate.
    """

    def __init__(self, model: Any) -> None:
        optimizer = model.optimizer
        rate = keras_hooks.learning_rate_variable(optimizer)
        slots = [v for v in optimizer.variables if _is_floating(v) and v is not rate]
        self._variables = [*model.trainable_variables, *slots]
        self._sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in self._variables]
        self._constraints = [v.constraint for v in model.trainable_variables]
        self.weights = sum(self._sizes[: len(model.trainable_variables)])
        self._signed = [place < len(self._constraints) for place in range(len(self._variables))]
        wide = any(np.dtype(_numpy(v)) == np.float64 for v in self._variables)
        self.dtype = np.dtype(np.float64 if wide else np.float32)

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def read(self) -> np.ndarray:
        """Copy of the vector, of shape (size,)."""
        vector = np.empty(self.size, self.dtype)
        for variable, view in zip(self._variables, self._views(vector), strict=True):
            view[:] = np.asarray(variable.numpy()).reshape(-1)
        return vector

    def write(self, vector: np.ndarray) -> None:
        """Set the model to *vector*, of shape (size,), projected to the weights' constraints.

        A mean of models that satisfy a constraint, such as a norm, may violate it.
        """
        for variable, view in zip(self._variables, self._views(vector), strict=True):
            variable.assign(view.reshape(variable.shape))
        for variable, constraint in zip(self._variables, self._constraints, strict=False):
            if constraint is not None:
                variable.assign(constraint(variable))

    def magnitudes(self, vector: np.ndarray) -> np.ndarray:
        """Mask, of shape (size,), of the elements of optimizer variables that were never negative.

        Args:
            vector: copy that :meth:`read` made after an update.
        """
        mask = np.zeros(self.size, bool)
        views = zip(self._views(vector), self._views(mask), strict=True)
        for place, (numbers, marks) in enumerate(views):
            self._signed[place] = self._signed[place] or bool((numbers < 0).any())
            marks[:] = not self._signed[place]
        return mask

    def _views(self, vector: np.ndarray) -> list[np.ndarray]:
        return np.split(vector, np.cumsum(self._sizes)[:-1])


def _is_floating(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _numpy(variable: Any) -> str:
    return "float64" if str(variable.dtype) == "float64" else "float32"
