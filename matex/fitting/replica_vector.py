"""A model's weights and its optimizer's state as one flat vector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.keras_hooks.second_moments import has_named_slots, second_moments

__all__ = ["ReplicaVector"]

_ROUNDING = 2**-8  # relative, of messages in 16 bits


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
        moments = {id(v) for v in second_moments(optimizer)}
        self._moments = [id(variable) in moments for variable in self._variables]
        self._knows_moments = has_named_slots(optimizer)
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

    def magnitudes(self, *vectors: np.ndarray) -> np.ndarray:
        """Mask, of shape (size,), of the elements of optimizer variables that are never negative.

        Of an optimizer of the script's own class it is not known which these are: those variables
        then, of which no element is negative in *vectors*, but for rounding.

        Args:
            vectors: copies that :meth:`read` made, here or on other ranks.
        """
        mask = np.zeros(self.size, bool)
        views = self._views(mask)
        parts = zip(*map(self._views, vectors), strict=True)
        for place, (marks, several) in enumerate(zip(views, parts, strict=True)):
            if self._knows_moments or place < len(self._constraints):  # the latter are weights
                marks[:] = self._moments[place]
            else:
                marks[:] = not _any_negative(several)
        return mask

    def _views(self, vector: np.ndarray) -> list[np.ndarray]:
        return np.split(vector, np.cumsum(self._sizes)[:-1])


def _any_negative(several: Iterable[np.ndarray]) -> bool:
    return any(bool((numbers < -_ROUNDING * np.abs(numbers).max()).any()) for numbers in several)


def _is_floating(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _numpy(variable: Any) -> str:
    return "float64" if str(variable.dtype) == "float64" else "float32"
