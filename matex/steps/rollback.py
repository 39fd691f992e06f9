"""Restoring of all variables that a step has changed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from matex.replacing import replaced
from matex.steps.graphs.graph_inspection import variables_in

__all__ = ["Assignments", "Rollback"]

# Methods that change a variable's value.
_CHANGE = [
    name
    for name in dir(ResourceVariable)
    if name.startswith(("assign", "scatter_", "batch_scatter_"))
]


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


class Assignments:
    """Variables that eager code assigns to, whoever has made them, and their former values. Local.

    Those that a function of ``tf.function`` assigns to are found when it is traced.
    """

    def __init__(self) -> None:
        self._variables: dict[int, Any] = {}  # all that were ever assigned to, by identity
        self._before: dict[int, Any] = {}
        self._final = 0  # contexts in which assignments are

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Context of code whose assignments :meth:`put_back` takes back."""
        for variable in self._variables.values():
            self._note(variable)
        with contextlib.ExitStack() as stack:
            for name in _CHANGE:
                new = self._noting(getattr(ResourceVariable, name))
                stack.enter_context(replaced(ResourceVariable, name, new))
            yield

    @contextlib.contextmanager
    def final(self) -> Iterator[None]:
        """Context, inside, of assignments that are not taken back."""
        self._final += 1
        try:
            yield
        finally:
            self._final -= 1

    def forget(self) -> None:
        """Leave all values as they are."""
        self._before = {}

    def put_back(self, *, but: Any = None) -> list[Any]:
        """Restore all values; return the variables that had others.

        Args:
            but: variable that stays as it is. None by default.
        """
        changed = []
        before, self._before = self._before, {}
        for identity, value in before.items():
            variable = self._variables[identity]
            if variable is not but and not _is_same(variable.numpy(), value.numpy()):
                variable.assign(value)
                changed.append(variable)
        return changed

    def _note(self, variable: Any) -> None:
        identity = id(variable)
        if self._final:
            self._before.pop(identity, None)
        elif identity not in self._before:
            with tf.init_scope():  # out of the graph of a function that is traced
                if tf.executing_eagerly() and bool(variable.is_initialized()):
                    self._variables[identity] = variable
                    self._before[identity] = variable.read_value()

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def noted(variable: Any, *args: Any, **kwargs: Any) -> Any:
            self._note(variable)
            return original(variable, *args, **kwargs)

        return noted


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same, NaN included."""
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype == object:  # strings
        return a.tolist() == b.tolist()
    return a.tobytes() == b.tobytes()
