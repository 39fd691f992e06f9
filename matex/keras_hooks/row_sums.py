"""Numbers of a graph that are sums over the rows of its batch, by the operations that make them."""

from __future__ import annotations

from typing import Any

__all__ = ["is_row_sum"]

_SAME = ("Identity", "Cast", "Neg", "StopGradient", "PreventGradient")
_PRODUCTS = ("Mul", "RealDiv")  # by what is no number of the batch
_TOTALS = ("AddV2", "Add", "AddN", "Sub")
_SUMS = ("Sum", "L2Loss")


def is_row_sum(number: Any) -> bool:
    """Whether *number* adds up over the rows of the graph's batch; local.

    It is a sum over rows, times numbers that do not depend on the batch, or a total of such sums.
    False where the operations do not tell, as in loops, and in a graph for a known number of rows,
    of which a divisor may be made.

    Args:
        number: scalar tensor.
    """
    if not hasattr(number, "graph"):  # an eager tensor
        return False
    operation, inputs = number.op, list(number.op.inputs)
    if operation.type in _SAME:
        return is_row_sum(inputs[0])
    if operation.type in _PRODUCTS:
        factors = inputs if operation.type == "Mul" else inputs[:1]
        sums = [factor for factor in factors if _is_of_rows(factor)]
        return len(sums) == 1 and not _is_of_rows_but(sums[0], inputs) and is_row_sum(sums[0])
    if operation.type in _TOTALS:
        return all(map(is_row_sum, inputs))
    if operation.type not in _SUMS or inputs[0].shape.rank is None or number.shape.rank:
        return False
    if not inputs[0].shape.rank:
        return operation.type == "Sum" and is_row_sum(inputs[0])
    # Of all elements, since the result is one number: also along the rows.
    return inputs[0].shape[0] is None and _is_of_rows(inputs[0])


def _is_of_rows_but(one: Any, tensors: list[Any]) -> bool:
    """Whether any other of *tensors* than *one* depends on the batch."""
    return any(_is_of_rows(tensor) for tensor in tensors if tensor is not one)


def _is_of_rows(tensor: Any) -> bool:
    """Whether *tensor* depends on the batch of its graph, be it on the number of its rows."""
    captured = {id(inner) for _, inner in tensor.graph.captures}
    seen, pending = set[int](), [tensor]
    while pending:
        one = pending.pop()
        if one.op.type == "Placeholder" and id(one) not in captured:
            return True
        if id(one.op) not in seen:
            seen.add(id(one.op))
            pending += one.op.inputs
    return False
