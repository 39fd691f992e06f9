"""A Keras optimizer for weights in one flat vector, such as a centre's."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import InputError
from matex.keras_hooks.optimizers import optimizer_kinds, zeros_like

__all__ = ["FlatOptimizer"]

_RATE = "learning_rate"  # option that has no effect on slots


class FlatOptimizer:
    """A :class:`matex.strategies.rules.centre.CentreOptimizer` by Keras.

    Its state, with the number of updates, is in the slots that are passed in: any rank's optimizer
    continues where another one stopped. It updates variables of the model's shapes, because some
    optimizers use the norm of each.

    Args:
        name: name of its class in ``keras.optimizers``; case is ignored.
        options: arguments of the class.
        variables: trainable variables of the model, whose weights are the vector.
        dtype: dtype of the vectors.

    Attributes:
        kind: name and options, but for the learning rate.

    Raises:
        InputError: Keras cannot make this optimizer.
    """

    def __init__(
        self, name: str, options: dict[str, Any], variables: list[Any], dtype: np.dtype
    ) -> None:
        self._optimizer = _made(name, options)
        others = sorted(f"{key}={value}" for key, value in options.items() if key != _RATE)
        self.kind = ",".join([name.lower(), *others])
        self._weights = zeros_like(variables, dtype)
        self._dtype = dtype
        self._first: np.ndarray | None = None

    def first_slots(self, weights: np.ndarray) -> np.ndarray:
        """Slots before the first update, of shape (s,). Local."""
        if self._first is None:
            self._write(self._weights, weights)  # which some optimizers copy
            self._optimizer.build(self._weights)
            self._first = self._read(self._slots)
        return self._first.copy()

    def updated(
        self, weights: np.ndarray, slots: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and slots after one update by *gradient*. Local."""
        if self._first is None:  # slots have come from another rank
            self.first_slots(weights)
        self._write(self._weights, weights)
        self._write(self._slots, slots)
        parts = zip(self._weights, _parts(gradient, self._weights), strict=True)
        shaped = [keras_hooks.constant(part.reshape(v.shape)) for v, part in parts]
        with keras_hooks.updating():
            self._optimizer.apply(shaped)
        return self._read(self._weights), self._read(self._slots)

    @property
    def _slots(self) -> list[Any]:
        """All variables that change. Counters are exact in float32 up to 2 ** 24 updates."""
        rate = keras_hooks.learning_rate_variable(self._optimizer)
        return [v for v in self._optimizer.variables if v is not rate]

    def _read(self, variables: list[Any]) -> np.ndarray:
        return np.concatenate([np.ravel(v.numpy()).astype(self._dtype) for v in variables])

    @staticmethod
    def _write(variables: list[Any], vector: np.ndarray) -> None:
        for variable, part in zip(variables, _parts(vector, variables), strict=True):
            is_counter = "int" in str(variable.dtype)
            variable.assign((np.rint(part) if is_counter else part).reshape(variable.shape))


def _parts(vector: np.ndarray, variables: list[Any]) -> list[np.ndarray]:
    """Part of *vector* for each of *variables*."""
    sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in variables]
    return np.split(vector, np.cumsum(sizes)[:-1])


def _made(name: str, options: dict[str, Any]) -> Any:
    kinds = optimizer_kinds()
    if name.lower() not in kinds:
        raise InputError(
            f"centre_optimizer must be one of {', '.join(sorted(kinds))}. Received: {name}"
        )
    try:
        return kinds[name.lower()](**options, name="centre")
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        reason = str(error).partition("\n")[0]
        raise InputError(
            "centre_optimizer must have arguments that Keras takes. "
            f"Received: {name} with {given}: {reason}"
        ) from None
