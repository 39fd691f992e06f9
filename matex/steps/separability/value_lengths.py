"""Lengths that depend on the values of rows: numbers of some of them, or of different ones. Local.

A number of rows is the same for all values, and travels with the step. How many of them are
selected, or how many classes there are among them, is a sum over rows like any other.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ValueLengths"]

_SELECTING = ("Where", "Unique", "DynamicPartition", "NonMaxSuppression")
_OF_OTHER_LENGTH = ("Segment", "Sparse", "Scatter", "TensorScatter", "UnsortedSegment",
                    "DynamicStitch", "ParallelDynamicStitch")  # fmt: skip
_LOOK_UPS = ("Gather", "GatherV2")  # as long as the places that they look up
_CHOICES = ("Select", "SelectV2")
_SHAPED = ("BroadcastTo", "Fill", "Reshape", "Slice", "StridedSlice", "Tile")


class ValueLengths:
    """Lengths by values in one graph, as its operations are gone through."""

    def __init__(self) -> None:
        self._selected: set[int] = set()  # tensors with such a length
        self._lengths: set[int] = set()  # integers and booleans that follow from one

    def are_used_by(self, operation: Any, of_rows: bool) -> bool:
        """Whether *operation* makes a number of such a length, or chooses by it. Notes its results.

        Args:
            operation: operation of the graph, after those that its inputs are made by.
            of_rows: whether it is made of values of rows.
        """
        given = [id(tensor) for tensor in operation.inputs]
        if operation.type in ("Shape", "Size"):
            if given[0] in self._selected:
                self._lengths.add(id(operation.outputs[0]))
            return False
        if (of_rows and operation.type.startswith(_SELECTING)) or self._follows(operation, given):
            self._selected |= {id(tensor) for tensor in _selected_by(operation)}
        is_length = [identity in self._lengths for identity in given]
        if operation.type in _CHOICES:
            return is_length[0]
        numbers = [t for t in operation.outputs if t.dtype.is_integer or t.dtype.is_bool]
        if any(is_length) and _is_of_lengths(operation, is_length):
            self._lengths |= {id(tensor) for tensor in numbers}
        return operation.type == "Cast" and is_length[0] and not numbers

    def _follows(self, operation: Any, given: list[int]) -> bool:
        """Whether results of *operation* are as long as one of what it is *given*."""
        if operation.type in _LOOK_UPS:
            return given[1] in self._selected
        is_other = operation.type.startswith(_OF_OTHER_LENGTH)
        return not is_other and not self._selected.isdisjoint(given)


def _selected_by(operation: Any) -> list[Any]:
    """Results of *operation* whose length is one by values; each element has a place among them."""
    results = [one for one in operation.outputs if not one.shape.is_fully_defined()]
    is_unique = operation.type.startswith("Unique")
    return [one for one in results if not (is_unique and one.value_index == 1)]


def _is_of_lengths(operation: Any, is_length: list[bool]) -> bool:
    """Whether the results of *operation* are numbers made of lengths, and not tensors of these."""
    return operation.type not in _SHAPED or (is_length[0] and operation.type != "Fill")
