"""Numbers of look-ups that a row of the batch makes, read from the graph of a step. Local.

The indices of an embedding's gradient are traced back to the tensors of the batch. Operations on
the way treat each row by itself, so a row makes as many look-ups as any other. Where an axis of a
batch is free, that number is at most as large as the batch's own sizes say: then no operation on
the way may make an axis longer. Random numbers that a step draws count as rows, too, where it
draws for as many rows as a tensor of the batch has.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from matex import keras_hooks
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.graphs.measured_axis import measured_axis

__all__ = ["LookUp", "look_ups", "pieces_of"]

# Operations whose result has one row for each row of their inputs, of which this many count.
_BY_ROWS = frozenset(
    (
        "Abs",
        "AddV2",
        "AsString",
        "Bucketize",
        "Cast",
        "Ceil",
        "Equal",
        "ExpandDims",
        "Floor",
        "FloorDiv",
        "FloorMod",
        "Greater",
        "GreaterEqual",
        "Identity",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "LookupTableFindV2",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "NotEqual",
        "RealDiv",
        "Round",
        "SelectV2",
        "Squeeze",
        "StaticRegexReplace",
        "StopGradient",
        "StridedSlice",
        "StringLower",
        "StringToHashBucketFast",
        "StringToHashBucketStrong",
        "StringUpper",
        "Sub",
    )
)
# Those of them that drop axes, add axes of size 1, or shorten axes.
_RESHAPING = ("ExpandDims", "Squeeze", "StridedSlice")
_DEPTH = 32


class LookUp(NamedTuple):
    """One look-up into a table: at most ``known`` times the values of a row along free axes."""

    known: int
    tensors: tuple[int, ...] = ()
    """Numbers of the tensors of the batch whose free axes bound it; () if all axes are known."""
    divisors: tuple[int, ...] = ()
    """Numbers of values of a row of these tensors for each one along their free axes."""

    def is_bounded_by(self, capacity: SlotCapacity) -> bool:
        """Whether *capacity* tells how long its tensors may be."""
        return all(number < len(capacity.values) for number in self.tensors)

    def per_row(self, capacity: SlotCapacity) -> int:
        """Largest number of look-ups of a row of a batch that *capacity* holds."""
        bounds = (capacity.values[n] // d for n, d in zip(self.tensors, self.divisors, strict=True))
        return self.known * max(bounds, default=1)


class _Origin(NamedTuple):
    """Origin of a tensor whose first axis is the batch's."""

    tensors: frozenset[int]
    """Numbers of the tensors of the batch that it was computed from."""
    sizes: int | None
    """Identity of a tensor with its free sizes; None if nothing bounds these."""


class _Leaf(NamedTuple):
    """Number of a tensor of the batch, or of the one that a tensor is a component of."""

    number: int
    is_dense: bool


def pieces_of(indices: Any) -> list[Any]:
    """The *indices* of a traced gradient by look-up: a table may be looked into several times."""
    if indices.op.type in ("Cast", "Identity"):
        return pieces_of(indices.op.inputs[0])
    if indices.op.type != "ConcatV2":
        return [indices]
    return [part for piece in indices.op.inputs[:-1] for part in pieces_of(piece)]


def look_ups(indices: Any, batch: Any) -> list[LookUp]:
    """The look-ups of a row that *indices* are of, in their order; [] if unknown.

    It is read from the graph, so it is unknown for tensors that were computed eagerly.

    Args:
        batch: rows with which the graph was traced, of any number.
    """
    if hasattr(indices, "numpy"):
        return []
    graph = _BatchGraph(batch)
    found = [graph.look_up(piece) for piece in pieces_of(indices)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


class _BatchGraph:
    """Graph of a step, seen from the tensors of its *batch*."""

    def __init__(self, batch: Any) -> None:
        self._leaves: dict[int, _Leaf] = {}
        self._known: list[int] = []
        for number, leaf in enumerate(keras_hooks.flatten(batch)):
            parts = keras_hooks.components_of(leaf)
            is_dense = len(parts) == 1 and parts[0] is leaf
            self._known.append(_known_size(leaf))
            self._leaves |= {id(part): _Leaf(number, is_dense) for part in parts}

    def look_up(self, indices: Any) -> LookUp | None:
        """The look-up of flat *indices*; None if it is unknown how many a row makes."""
        if indices.op.type != "Reshape":
            return None
        places = indices.op.inputs[0]
        if not places.shape.rank or places.shape[0] is not None:
            return None
        rows = self._origin_of(places, _DEPTH)
        if rows is None:
            return None
        if not _free_axes(places):
            return LookUp(_known_size(places))
        if rows.sizes is None:
            return None
        tensors = tuple(sorted(rows.tensors))
        return LookUp(_known_size(places), tensors, tuple(self._known[n] for n in tensors))

    def _origin_of(self, tensor: Any, depth: int) -> _Origin | None:
        """Origin of *tensor*; None if its first axis may not be the batch's."""
        operation = tensor.op
        if operation.type == "Placeholder":
            return self._given(tensor)
        if operation.type == "RaggedTensorToTensor":  # as TextVectorization ends
            return self._padded(operation, depth)
        if operation.type == "EnsureShape":  # as draws for rows end
            return self._drawn(tensor, depth)
        if operation.type not in _BY_ROWS or not depth:
            return None
        free = [each for each in operation.inputs if each.shape.rank and each.shape[0] is None]
        origins = [self._origin_of(each, depth - 1) for each in free]
        known = [origin for origin in origins if origin is not None]
        if not known or len(known) < len(origins):
            return None
        tensors = frozenset().union(*(origin.tensors for origin in known))
        return _Origin(tensors, _sizes(tensor, dict(zip(map(id, free), known, strict=True))))

    def _given(self, tensor: Any) -> _Origin | None:
        leaf = self._leaves.get(id(tensor))
        if tensor.dtype.name == "resource" or (leaf is not None and not leaf.is_dense):
            return None
        if leaf is None:
            return _Origin(frozenset(), None)
        return _Origin(frozenset({leaf.number}), id(tensor))

    def _drawn(self, tensor: Any, depth: int) -> _Origin | None:
        """Origin of random numbers, drawn for as many rows as a tensor of the batch has."""
        count = _rows_drawn(tensor)
        if count is None or not depth:
            return None
        measured = measured_axis(count)
        if measured.tensor is None or measured.axis:
            return None
        rows = self._origin_of(measured.tensor, depth - 1)
        if rows is None:
            return None
        return rows._replace(sizes=None if _free_axes(tensor) else id(tensor))

    def _padded(self, padding: Any, depth: int) -> _Origin | None:
        """Origin of what *padding* makes of ragged inputs, or of texts that were split."""
        shape, _, _, partition, *further = padding.inputs
        if padding.get_attr("row_partition_types")[0] == b"ROW_SPLITS":
            leaf = self._leaves.get(id(partition))
            if leaf is None or leaf.is_dense:
                return None
            given = {self._leaves.get(id(each)) for each in further}
            is_bounded = given <= {leaf} and constant_of(shape) is not None
            return _Origin(frozenset({leaf.number}), id(padding) if is_bounded else None)
        source = partition.op.inputs[0] if partition.op.type == "StridedSlice" else partition
        if source.op.type != "StringSplitV2" or source is not source.op.outputs[2]:
            return None
        first = constant_of(partition.op.inputs[1])
        is_first = first is not None and first == [0]
        rows = self._origin_of(source.op.inputs[0], depth - 1) if is_first else None
        return None if rows is None else rows._replace(sizes=None)


def _sizes(tensor: Any, origins: Mapping[int, _Origin]) -> int | None:
    """Identity of a tensor with the free sizes of *tensor*, or itself; None if nothing bounds them.

    Args:
        tensor: result of an operation by rows.
        origins: origins of those of its inputs that have rows, by their identity.
    """
    operation, axes = tensor.op, _free_axes(tensor)
    if not axes:
        return id(tensor)
    if operation.type in _RESHAPING:
        source, *places = operation.inputs
        is_fixed = all(constant_of(each) is not None for each in places)
        is_bounded = origins[id(source)].sizes is not None
        return id(tensor) if is_fixed and is_bounded else None
    # Of inputs with free sizes all must have the same: or else one axis each, at the same place.
    found = {}
    for each in operation.inputs:
        if each.shape.rank is None:
            return None
        if each.shape.rank and _free_axes(each):
            origin = origins.get(id(each))
            if origin is None or origin.sizes is None or each.shape.rank != tensor.shape.rank:
                return None
            found[origin.sizes] = _free_axes(each)
    if len(found) == 1:
        return next(iter(found))
    is_one_axis = len(axes) == 1 and bool(found) and all(each == axes for each in found.values())
    return id(tensor) if is_one_axis else None


def _rows_drawn(tensor: Any) -> Any | None:
    """Number of rows that *tensor* was drawn for, itself a tensor; None for other tensors."""
    operation = tensor.op.inputs[0].op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    if operation.type not in ("If", "StatelessIf"):
        return None
    names = ((each.op.name.rpartition("/")[2], each) for each in operation.inputs)
    named = (each for name, each in names if name.startswith(keras_hooks.ROWS_DRAWN))
    return next(named, None)


def _free_axes(tensor: Any) -> list[int]:
    """Axes of *tensor* of unknown size, but for the rows."""
    return [axis for axis, size in enumerate(tensor.shape.as_list()) if axis and size is None]


def _known_size(tensor: Any) -> int:
    """Product of the known sizes of *tensor*, but for its rows."""
    if tensor.shape.rank is None:
        return 1
    return prod(size for size in tensor.shape.as_list()[1:] if size is not None)
