"""Restoring of all variables that a step has changed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from matex.steps.graph_inspection import variables_in

__all__ = ["Rollback"]


class Rollback:
    """Values of all variables that a graph accesses, from before it ran. Local.

    TensorFlow copies no value for this: an update writes a new buffer while the old one is held.

    ``variables`` are their handles and dtypes.

    Args:
        function: concrete function of the step.
    """

    def __init__(self, function: Any) -> None:
        self.variables = variables_in(function)
        self._values: list[Any] | None = None
        self._read = tf.function(self._reads, autograph=False).get_concrete_function()

    def _reads(self) -> list[Any]:
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            for handle, dtype in self.variables
        ]

    def begin(self) -> None:
        """Hold the current values."""
        self._values = self._read()

    def end(self) -> None:
        """Release the held values."""
        self._values = None

    def put_back(self) -> None:
        """Restore the values held since :meth:`begin`."""
        assert self._values is not None
        for (handle, _), value in zip(self.variables, self._values, strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    def values(self) -> list[Any]:
        """Current values, as arrays."""
        return [value.numpy() for value in self._read()]
