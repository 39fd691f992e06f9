"""Axes of a tensor of a graph whose size is not known before the batch is, but for the rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from matex.steps.graphs.graph_inspection import constant_of

__all__ = ["free_axes", "known_size", "sizes_of"]

# Operations by rows that drop axes, add axes of size 1, or shorten axes.
_RESHAPING = ("ExpandDims", "Squeeze", "StridedSlice")


def free_axes(tensor: Any) -> list[int]:
    """Axes of *tensor* of unknown size, but for the rows."""
    return [axis for axis, size in enumerate(tensor.shape.as_list()) if axis and size is None]


def known_size(tensor: Any) -> int:
    """Product of the known sizes of *tensor*, but for its rows."""
    if tensor.shape.rank is None:
        return 1
    return prod(size for size in tensor.shape.as_list()[1:] if size is not None)


def sizes_of(tensor: Any, known: Mapping[int, int | None]) -> int | None:
    """Identity of a tensor with the free sizes of *tensor*, or itself; None if nothing bounds them.

    Args:
        tensor: result of an operation by rows.
        known: the same of those of its inputs that have rows, by their identity.
    """
    operation, axes = tensor.op, free_axes(tensor)
    if not axes:
        return id(tensor)
    if operation.type in _RESHAPING:
        source, *places = operation.inputs
        is_fixed = all(constant_of(each) is not None for each in places)
        is_bounded = known[id(source)] is not None
        return id(tensor) if is_fixed and is_bounded else None
    # Of inputs with free sizes all must have the same: or else one axis each, at the same place.
    found = {}
    for each in operation.inputs:
        if each.shape.rank is None:
            return None
        if each.shape.rank and free_axes(each):
            sizes = known.get(id(each))
            if sizes is None or each.shape.rank != tensor.shape.rank:
                return None
            found[sizes] = free_axes(each)
    if len(found) == 1:
        return next(iter(found))
    is_one_axis = len(axes) == 1 and bool(found) and all(each == axes for each in found.values())
    return id(tensor) if is_one_axis else None
