"""Indices that name each row of the batch once, in the batch's order. Local.

``tf.vectorized_map`` takes the elements of what it maps by such indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.graphs.measured_axis import measured_axis
from matex.steps.separability.row_places import RowPlace

__all__ = ["name_each_row"]

_COPIES = ("Cast", "Identity", "StopGradient")

PlaceOf = Callable[[Any], RowPlace | None]


def name_each_row(indices: Any, place_of: PlaceOf) -> bool:
    """Whether *indices* are 0, 1 and so on, one for each row of the batch.

    Args:
        indices: tensor of a graph.
        place_of: function that returns the place of the rows in another tensor, None for none.
    """
    operation = indices.op
    if operation.type in _COPIES:
        return name_each_row(operation.inputs[0], place_of)
    if operation.type in ("Select", "SelectV2"):  # of several rows all, or the first of one
        condition, of_several, of_one = operation.inputs
        return (
            _is(of_one, 0)
            and condition.op.type == "Greater"
            and _counts(condition.op.inputs[0], place_of)
            and _is(condition.op.inputs[1], 1)
            and name_each_row(of_several, place_of)
        )
    if operation.type != "Range":
        return False
    start, limit, step = operation.inputs
    return _is(start, 0) and _is(step, 1) and _counts(limit, place_of)


def _counts(number: Any, place_of: PlaceOf) -> bool:
    """Whether *number* is that of the batch's rows, or the largest of several such numbers."""
    operation = number.op
    if operation.type == "Max" and operation.inputs[0].op.type == "Pack":
        return all(_counts(each, place_of) for each in operation.inputs[0].op.inputs)
    tensor, axis, _ = measured_axis(number)
    return tensor is not None and place_of(tensor) == RowPlace(axis, ())


def _is(tensor: Any, number: int) -> bool:
    value = constant_of(tensor)
    return value is not None and value.size == 1 and int(value.flat[0]) == number
