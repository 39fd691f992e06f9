"""Detection of steps that go on computing with gradients, as adversarial training does.

A gradient of a mean over rows is as small for each of them as there are many. What is made of it
by a function with a threshold, such as a norm that is at least some 1e-12, adds up over a few rows
and not over a batch, so such steps are tried with as many rows as they will have.
"""

from __future__ import annotations

from typing import Any

__all__ = ["computes_with_gradients"]

_BACKWARD = "gradient"  # in the names of operations that TensorFlow makes to find gradients
_ADDS = "AddN"  # and by which it adds up those of a value that is used several times
_DECISIONS = ("ClipByValue", "Greater", "GreaterEqual", "Less", "LessEqual", "Maximum", "Minimum")


def computes_with_gradients(function: Any) -> bool:
    """Whether *function* finds gradients of values that it made of gradients, or cuts them. Local.

    Args:
        function: concrete function of a batch and a control vector.
    """

    def decides(operation: Any) -> bool:
        """Whether an *operation* of a gradient of the script's own has a threshold."""
        return operation.type in _DECISIONS and bool(operation.inputs[0].dtype.is_floating)

    made: set[int] = set()  # by gradients
    used: set[int] = set()  # the same, by operations of the script, as another forward pass
    for operation in function.graph.get_operations():
        given = [id(tensor) for tensor in operation.inputs]
        outputs = [id(tensor) for tensor in operation.outputs]
        if _BACKWARD in operation.name or operation.type == _ADDS:
            if not used.isdisjoint(given) or (decides(operation) and not made.isdisjoint(given)):
                return True
            made.update(outputs)
        elif not made.isdisjoint(given):
            made.update(outputs)
            used.update(outputs)
    return False
