"""Decisions by the number of rows or by the place of a row, in the graph of a step. Local.

The trial of a few rows finds what depends on their number in any of its parts: not a weight for the
first hundred rows of a batch, or a branch for batches of more than a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.separability.row_places import RowPlace

__all__ = ["RowNumbers"]

_COUNT, _OTHER = 1, 2
"""A value that follows from the number of rows: that number, or multiples; or anything else."""

_COPIES = ("Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient")
_MULTIPLES = ("Mul", "Prod", "Sum")
_ARITHMETIC = ("Add", "AddV2", "ConcatV2", "Cumsum", "Div", "DivNoNan", "Exp", "LinSpace", "Log",
               "Log1p", "Neg", "Pack", "Pow", "Range", "RealDiv", "Reciprocal", "Rsqrt", "Sqrt",
               "Square", "Sub")  # fmt: skip
_DECISIONS = ("ClipByValue", "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "Maximum",
              "Minimum", "NotEqual")  # fmt: skip
_OF_ONE = ("Ceil", "Floor", "Relu", "Rint", "Round", "Sign")
_PARTS = ("FloorDiv", "FloorMod")
_TABLES = {"GatherV2": 1, "Slice": 2, "StridedSlice": 2}  # input that may be a place
_ALIKE = ("Fill", "OnesLike")  # as many numbers as rows, all the same: added up they count
_LEAST = 8  # a trial has as many rows: it shows what depends on fewer


class RowNumbers:
    """Values of one graph that follow from numbers of rows, as its operations are gone through."""

    def __init__(self) -> None:
        self._vectors: dict[int, int] = {}  # shapes: the axis of the rows
        self._numbers: dict[int, int] = {}
        self._alike: set[int] = set()

    def decides(self, operation: Any, given: Sequence[RowPlace | None]) -> bool:
        """Whether *operation* decides by the number of rows or the place of one. Notes its results.

        Args:
            operation: operation of the graph, after those that its inputs are made by.
            given: rows in its inputs; None for an input without rows.
        """
        if operation.type in ("Shape", "Size"):
            self._measure(operation, given[0])
            return False
        numbers = [self._numbers.get(id(tensor), 0) for tensor in operation.inputs]
        if operation.type == "StridedSlice":
            self._take(operation)
            if _cuts_by_place(operation, given[0]):
                return True
        elif operation.type == "Prod" and id(operation.inputs[0]) in self._vectors:
            numbers = [_COUNT, 0]
        elif operation.type in _ALIKE:
            if any(numbers) or any(given) or id(operation.inputs[0]) in self._vectors:
                self._alike.add(id(operation.outputs[0]))
            return False
        elif operation.inputs and id(operation.inputs[0]) in self._alike:
            return self._repeat(operation)
        if not any(numbers) or any(rows is not None for rows in given):
            return False
        made, decides = _made_by(operation, numbers)
        if made:
            self._numbers |= {id(tensor): made for tensor in operation.outputs}
        return decides

    def _repeat(self, operation: Any) -> bool:
        """Note what *operation* makes of equal numbers."""
        if operation.type in _COPIES:
            self._alike.add(id(operation.outputs[0]))
        elif operation.type == "Cumsum":
            self._numbers[id(operation.outputs[0])] = _OTHER
        return False

    def _measure(self, operation: Any, rows: RowPlace | None) -> None:
        """Note the shape or size of a tensor with *rows*."""
        (result,) = operation.outputs
        if rows is None or rows.axis is None or operation.inputs[0].shape.rank is None:
            return
        if operation.type == "Shape":
            self._vectors[id(result)] = rows.axis
        else:
            self._numbers[id(result)] = _COUNT

    def _take(self, operation: Any) -> None:
        """Note the part of a shape, or of a vector of numbers of rows, that *operation* takes."""
        source, (result,) = operation.inputs[0], operation.outputs
        if id(source) in self._numbers:
            self._numbers[id(result)] = _OTHER
        axis = self._vectors.get(id(source))
        first = constant_of(operation.inputs[1])
        if axis is None or first is None or first.size != 1:
            return
        begin = 0 if operation.get_attr("begin_mask") else int(first[0]) % source.shape[0]
        if operation.get_attr("shrink_axis_mask"):
            if begin == axis:
                self._numbers[id(result)] = _COUNT
        elif begin <= axis < begin + (result.shape[0] or 0):
            self._vectors[id(result)] = axis - begin


def _made_by(operation: Any, numbers: Sequence[int]) -> tuple[int, bool]:
    """Kind of the result of *operation* on *numbers*, 0 if it is none, and whether it decides."""
    kind = operation.type
    pairs = zip(operation.inputs, numbers, strict=True)
    others = [constant_of(tensor) for tensor, number in pairs if not number and _is_set(tensor)]
    is_count = max(numbers) == _COUNT
    if kind in _COPIES:
        return numbers[0], False
    if kind in _MULTIPLES:
        return (_COUNT if is_count and others else _OTHER), False
    if kind in _ARITHMETIC:
        return _OTHER, False
    if kind in _OF_ONE:
        return max(numbers), not is_count
    if kind in _DECISIONS and others:
        is_harmless = is_count and all(one is not None and np.max(one) <= 1 for one in others)
        return (_COUNT if is_harmless else _OTHER), not is_harmless
    if kind in _PARTS and others:
        return _OTHER, any(one is None or np.max(np.abs(one)) > _LEAST for one in others)
    if kind in _TABLES and not numbers[0]:
        return 0, bool(numbers[_TABLES[kind]])
    if kind == "OneHot":
        depth = constant_of(operation.inputs[1])
        return 0, depth is not None and int(depth) > _LEAST
    return 0, False


def _is_set(tensor: Any) -> bool:
    """Whether the script has set *tensor*, as a constant or a variable.

    Other numbers of rows are compared where random numbers are drawn for them.
    """
    return tensor.op.type == "ReadVariableOp" or constant_of(tensor) is not None


def _cuts_by_place(operation: Any, rows: RowPlace | None) -> bool:
    """Whether *operation* cuts off rows at a place that no few rows reach."""
    if rows is None or rows.axis is None:
        return False
    begin, end = map(constant_of, operation.inputs[1:3])
    if operation.get_attr("ellipsis_mask") or operation.get_attr("new_axis_mask"):
        return False
    masks = (operation.get_attr("begin_mask"), operation.get_attr("end_mask"))
    return any(
        bound is not None
        and rows.axis < bound.size
        and not mask & (1 << rows.axis)
        and abs(int(bound[rows.axis])) >= _LEAST
        for bound, mask in zip((begin, end), masks, strict=True)
    )
