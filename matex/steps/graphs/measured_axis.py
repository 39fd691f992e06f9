"""The axis whose length a graph takes for the first number of a shape. Local."""

from __future__ import annotations

from typing import Any, NamedTuple

from matex.steps.graphs.graph_inspection import constant_of

__all__ = ["MeasuredAxis", "measured_axis"]

_COPIES = ("Cast", "Identity", "StopGradient", "EnsureShape")


class MeasuredAxis(NamedTuple):
    """Axis of a tensor whose length is taken."""

    tensor: Any = None
    """Tensor of the graph; None if it is unknown."""
    axis: int = 0
    is_product: bool = False
    """Whether the number is a product of lengths; the tensor is unknown then."""


def measured_axis(shape: Any) -> MeasuredAxis:
    """The axis whose length is the first number of *shape*, or a scalar of the graph."""
    first = 0  # place in *shape* of the number that is followed; a scalar has but one
    while True:
        operation = shape.op
        if operation.type in _COPIES or (operation.type in ("Pack", "ConcatV2") and first == 0):
            shape = operation.inputs[0]
        elif operation.type == "StridedSlice" and first == 0:
            begin = constant_of(operation.inputs[1])
            if begin is None or begin.size != 1 or operation.get_attr("begin_mask") not in (0, 1):
                return MeasuredAxis()
            first = 0 if operation.get_attr("begin_mask") else int(begin[0])
            shape = operation.inputs[0]
        elif operation.type == "Shape":
            return MeasuredAxis(operation.inputs[0], first)
        else:
            return MeasuredAxis(is_product=operation.type in ("Mul", "Prod"))
