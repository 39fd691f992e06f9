"""Values of tensors that a script's Python reads, as ``float(loss)`` or ``if loss > 3:`` do.

A rank would read those of its own rows where one process reads those of the batch, and might go
another way than the others.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from matex.keras_hooks.tensors import EAGER_TENSOR, TENSOR
from matex.replacing import replaced

__all__ = ["arrays_noted", "follows_from_arguments", "reads_noted"]

_LIBRARIES = ("tensorflow", "keras", "numpy")
# Modules of TensorFlow's with the methods by which values are read.
_VALUES = (".framework.ops", ".framework.tensor", ".ops.resource_variable_ops")


@contextlib.contextmanager
def reads_noted() -> Iterator[list[np.ndarray]]:
    """Context of eager code that lists the values which the script's Python reads, in their order.

    NumPy's own functions read tensors unseen; see :func:`arrays_noted`.
    """
    found: list[np.ndarray] = []
    read = EAGER_TENSOR._numpy

    def noting(tensor: Any) -> Any:
        value = read(tensor)
        if _is_by_script():
            found.append(np.array(value))
        return value

    with replaced(EAGER_TENSOR, "_numpy", noting):
        yield found


@contextlib.contextmanager
def arrays_noted() -> Iterator[list[Any]]:
    """Context of a trace that lists the tensors which the script's Python makes arrays of.

    The trace fails at the first one.
    """
    found: list[Any] = []
    convert = TENSOR.__array__

    def noting(tensor: Any, *args: Any, **kwargs: Any) -> NoReturn:
        if _is_by_script():
            found.append(tensor)
        convert(tensor, *args, **kwargs)
        raise AssertionError("TensorFlow makes no array of a tensor without a value")

    with replaced(TENSOR, "__array__", noting):
        yield found


def follows_from_arguments(tensor: Any) -> bool:
    """Whether *tensor*, in the graph of a function, depends on an argument of it."""
    captured = {id(inner) for _, inner in tensor.graph.captures}
    seen: set[int] = set()
    left = [tensor]
    while left:
        one = left.pop()
        if one.op.type == "Placeholder" and id(one) not in captured:
            return True
        if id(one.op) not in seen:
            seen.add(id(one.op))
            left += one.op.inputs
    return False


def _is_by_script() -> bool:
    """Whether code that is neither a library's nor matex's own has asked for a value.

    A function of TensorFlow's that reads one by itself, such as a number of rows, does the same on
    all ranks.
    """
    frame = sys._getframe(2)
    is_asked = False
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        package = name.partition(".")[0]
        if package == "tensorflow" and not is_asked and not name.endswith(_VALUES):
            return False
        if package not in _LIBRARIES:
            return package != "matex"
        is_asked |= package != "tensorflow"
        frame = frame.f_back  # type: ignore[assignment]
    return False
