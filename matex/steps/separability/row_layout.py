"""Layout of a batch's rows in tensors that have several rows for each. Local.

``reshape`` of ``(batch, windows, n)`` to ``(batch * windows, n)``, or ``repeat``, puts the rows of
one sample next to each other; ``concat([x, x], 0)`` or ``tile`` puts a whole batch behind another.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from matex.errors import NotShareable
from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.graphs.measured_axis import measured_axis
from matex.steps.separability.graph_results import is_variable
from matex.steps.separability.row_places import RowPlace, moved

__all__ = ["neighbours"]

_MOVED = ("ExpandDims", "Squeeze", "StridedSlice", "Transpose")
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod")
_LOOKUPS = {"GatherV2": 1, "ResourceGather": 1}


def neighbours(shape: Any) -> int:
    """The number of neighbouring rows of one sample in a tensor of *shape*.

    It is 1 where the first axis has one row for each row of the batch, or whole batches one behind
    the other. What an unknown operation returns is taken to have one row for each.

    Args:
        shape: tensor of the graph that is being traced, from which a shape is computed.

    Raises:
        NotShareable: the first dimension is a product, which can mean either layout; or the number
            is not known before the batch is.
    """
    measured = measured_axis(shape)
    if measured.is_product:
        raise NotShareable(
            "random numbers are drawn for several times as many rows as the batch has, and "
            "whose they are does not follow from their shape"
        )
    found = None if measured.tensor is None else _followed(measured.tensor)
    if found is None or found.axis != measured.axis:
        return 1
    if found.lengths:
        raise NotShareable(
            "random numbers are drawn for rows that are pieces of samples, of a number that "
            "depends on the batch"
        )
    return found.number


class _PlaceOfRows(NamedTuple):
    """The rows of the batch in a tensor."""

    axis: int
    """Axis of the rows."""
    number: int = 1
    """Number of neighbours, but for factors that are not known."""
    lengths: int = 0
    """Number of axes whose unknown lengths are such factors."""


def _followed(tensor: Any) -> _PlaceOfRows | None:
    """Layout of the rows in *tensor*; None if they are lost.

    It is followed back to where it has one row for each of the batch.
    """
    path = []
    while (source := _source(tensor)) is not None:
        path.append((tensor, source))
        tensor = source
    layout: _PlaceOfRows | None = _PlaceOfRows(0)
    for result, source in reversed(path):
        layout = layout and _carried(result, source, layout)
    return layout


def _source(tensor: Any) -> Any | None:
    """The input from which the rows of *tensor* come; None if there is no such one."""
    operation = tensor.op
    kind = operation.type
    if kind == "Placeholder":
        return _captured(tensor)
    if kind in _LOOKUPS:
        table = operation.inputs[0].shape
        is_table = kind == "ResourceGather" or (table.rank and table[0] is not None)
        return operation.inputs[_LOOKUPS[kind]] if is_table else None
    if kind == "IdentityN":
        return operation.inputs[tensor.value_index]
    if kind == "Split":
        return operation.inputs[1]
    if kind in ("Reshape", "Tile", "Pack", "Unpack", "SplitV", *_MOVED, *_REDUCTIONS):
        return operation.inputs[0]
    if kind == "Einsum":
        return next((each for each in operation.inputs if None in _lengths(each)), None)
    rank = tensor.shape.rank
    fitting = [each for each in operation.inputs if each.shape.rank == rank and rank]
    return next((each for each in fitting if each.shape[0] is None), None)


def _captured(tensor: Any) -> Any | None:
    """The tensor of an outer graph that *tensor* stands for in an inner one."""
    for outer, inner in getattr(tensor.graph, "captures", ()):
        if inner is tensor and hasattr(outer, "op") and not is_variable(outer):
            return outer
    return None


def _lengths(tensor: Any) -> list[int | None]:
    return tensor.shape.as_list() if tensor.shape.rank else []


def _carried(result: Any, source: Any, rows: _PlaceOfRows) -> _PlaceOfRows | None:
    """Layout of *rows* of *source* in *result*, which is made of it."""
    operation = result.op
    kind, axis = operation.type, rows.axis
    if kind == "Reshape":
        return _reshaped(result, source, rows)
    if kind in _LOOKUPS or kind in ("Tile", "SplitV", "Split", "Placeholder"):
        return rows
    if kind in _MOVED:
        place = moved(operation, RowPlace(axis, ())).place
        axis_now = None if place is None else place.axis
        return None if axis_now is None else rows._replace(axis=axis_now)
    if kind == "Pack":
        along = operation.get_attr("axis") % result.shape.rank
        return rows._replace(axis=axis + (along <= axis))
    if kind == "Unpack":
        along = operation.get_attr("axis") % source.shape.rank
        return None if along == axis else rows._replace(axis=axis - (along < axis))
    if kind in _REDUCTIONS:
        axes = constant_of(operation.inputs[1])
        gone = {axis} if axes is None else {int(a) % source.shape.rank for a in axes.ravel()}
        if axis in gone:
            return None
        before = 0 if operation.get_attr("keep_dims") else sum(a < axis for a in gone)
        return rows._replace(axis=axis - before)
    if kind == "Einsum":
        given, _, made = operation.get_attr("equation").decode().partition("->")
        labels = given.split(",")[[each is source for each in operation.inputs].index(True)]
        if "." in given or labels[axis] not in made:
            return None
        return rows._replace(axis=made.index(labels[axis]))
    return rows


def _reshaped(result: Any, source: Any, rows: _PlaceOfRows) -> _PlaceOfRows:
    lengths = _lengths(result)
    axis = lengths.index(None) if None in lengths else 0
    behind, now = _lengths(source)[rows.axis + 1 :], lengths[axis + 1 :]
    unknown = rows.lengths + behind.count(None) - now.count(None)
    number = rows.number * _product(behind) // max(1, _product(now))
    if unknown < 0 or number == 0:  # fewer than one
        return _PlaceOfRows(axis)
    return _PlaceOfRows(axis, number, unknown)


def _product(lengths: list[int | None]) -> int:
    """Product of the lengths that are known."""
    return math.prod(length for length in lengths if length is not None)
