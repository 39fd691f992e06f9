"""Exchange of the gradients of embeddings, which are a few rows of a table.

TensorFlow represents the gradient of a looked-up table as ``tf.IndexedSlices``: a row of numbers
and its index in the table for each look-up, with repeated indices. Keras's optimizers take
these, and square each slice before slices of the same index are summed; a gradient made dense
before gives other results. A dense gradient may also be far larger than its slices.

So slices are exchanged as they are, each in a slot of the exchanged vector that is determined by
its row in the global batch. Ranks fill the slots of their rows and leave zeros in the others; the
sum over ranks collects the slices of the batch, whichever ranks computed them. Empty slots hold
zeros for index 0, which change nothing. Slots come after the dense gradients: a slot belongs to
another index in each step, so what compression takes from it must not be added in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from matex import keras_hooks
from matex.exchange.layout import Segment
from matex.keras_hooks.rows import known_rows

__all__ = ["EmbeddingRows", "Placed", "from_row", "places_of"]

#: Function of a tensor with a rank's rows that returns one with the rows of the largest batch: each
#: row in its place, zeros in the others.
Placed = Callable[[Any], Any]

_T = TypeVar("_T")

# Indices travel as float32, which is exact for integers up to this value.
_EXACT = 1 << 24

# Slices may exceed the dense gradient by this many bytes, to keep Keras's results.
_SMALL_BYTES = 8 << 20

# Operations whose result has one row for each row of their inputs, of which this many count.
_BY_ROWS = frozenset(
    (
        "AddV2",
        "AsString",
        "Bucketize",
        "Cast",
        "Equal",
        "ExpandDims",
        "FloorDiv",
        "FloorMod",
        "Greater",
        "GreaterEqual",
        "Identity",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LookupTableFindV2",
        "Maximum",
        "Minimum",
        "Mul",
        "NotEqual",
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
_DEPTH = 32


class _SliceKind(NamedTuple):
    """Number of slices of a gradient per row of the batch, by look-up; () for a dense gradient."""

    looked_up: tuple[int, ...]
    shape: tuple[int, ...]
    """Shape of the variable."""


class EmbeddingRows:
    """Slots of one traced step. Local.

    Which gradients are slices shows in a graph for any number of rows. A later graph of the same
    step for a known number has the same slots.

    ``summed`` maps the names of variables whose slices are made dense to their bytes: the slices
    take more memory, or cannot be assigned to rows.

    Args:
        rows: number of rows of the largest global batch; None if unknown or if slices must not be
            used: then all gradients are dense.
    """

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self._kinds: list[_SliceKind] = []
        self.summed: dict[str, int] = {}

    @property
    def used(self) -> bool:
        """Whether a gradient is exchanged as slices, so that the rows of a rank matter."""
        return self.count > 0

    @property
    def count(self) -> int:
        """Number of gradients that are exchanged as slices."""
        return sum(bool(kind.looked_up) for kind in self._kinds)

    def in_order(self, items: Iterable[_T]) -> list[_T]:
        """*items*, one for each gradient, in the order of exchange: those of slices last."""
        listed = list(items)
        return [listed[number] for number in self._order]

    @property
    def _order(self) -> list[int]:
        """Numbers of the gradients in the order of exchange."""
        return sorted(range(len(self._kinds)), key=lambda n: bool(self._kinds[n].looked_up))

    def take(self, rows: int | None) -> bool:
        """Whether batches of at most *rows* rows fit these slots, or need none."""
        return not self.used or (rows is not None and self._rows is not None and rows <= self._rows)

    def fill(
        self, gradients: Sequence[Any], variables: Sequence[Any], batch: Any, placed: Placed
    ) -> tuple[list[Any], list[Any]]:
        """Dense tensors of fixed shapes for *gradients*, and the indices of the slices.

        The tensors are in the order of exchange, see :meth:`in_order`.

        Args:
            gradients: tensors or ``tf.IndexedSlices``, in the order of *variables*.
            batch: rows from which they were computed.
            placed: function that puts rows in their places of the largest batch.
        """
        rows = keras_hooks.rows_traced(batch)
        self._kinds, values, places = self._kinds_of(gradients, variables, batch), [], []
        for kind, gradient, variable in zip(self._kinds, gradients, variables, strict=True):
            if not kind.looked_up:
                dense = tf.convert_to_tensor(gradient)
                dense.set_shape(variable.shape)  # which a graph may have lost (LSTM, free lengths)
                values.append(dense)
                continue
            width = prod(kind.shape[1:])
            flat = tf.reshape(gradient.values, (-1, width))
            values.append(self._slots(flat, kind, rows, placed))
            place = tf.cast(tf.reshape(gradient.indices, (-1, 1)), tf.float32)
            places.append(tf.reshape(self._slots(place, kind, rows, placed), (-1,)))
        return self.in_order(values), places

    def _slots(self, slices: Any, kind: _SliceKind, rows: Any, placed: Placed) -> Any:
        """Slots with the *slices* of some rows, a block for each look-up."""
        assert self._rows is not None
        width = slices.shape[1]
        blocks = []
        # Fails if the number of slices differs from the number that rows bring.
        for block, per_row in zip(
            tf.split(slices, [rows * n for n in kind.looked_up]), kind.looked_up, strict=True
        ):
            of_all = placed(tf.reshape(block, (rows, per_row * width)))
            of_all = tf.ensure_shape(of_all, (self._rows, per_row * width))
            blocks.append(tf.reshape(of_all, (self._rows * per_row, width)))
        return tf.concat(blocks, 0) if len(blocks) > 1 else blocks[0]

    def empty(self, gradients: Sequence[Any], places: Sequence[Any]) -> list[Any]:
        """Gradients of the whole batch, from the results of :meth:`fill` summed over ranks.

        They are in the order of the variables.
        """
        left = iter(places)
        summed = dict(zip(self._order, gradients, strict=True))
        result: list[Any] = []
        for number, kind in enumerate(self._kinds):
            gradient = summed[number]
            if not kind.looked_up:
                result.append(gradient)
                continue
            place = tf.cast(tf.round(next(left)), tf.int32)
            values = tf.reshape(gradient, (-1, *kind.shape[1:]))
            shape = tf.constant(kind.shape, tf.int32)
            result.append(tf.IndexedSlices(values, place, dense_shape=shape))
        return result

    def _kinds_of(
        self, gradients: Sequence[Any], variables: Sequence[Any], batch: Any
    ) -> list[_SliceKind]:
        in_graph = not tf.executing_eagerly()
        if in_graph and self._kinds and known_rows(batch) is not None:
            return self._kinds
        uneven = _uneven(batch)
        return [self._kind_of(g, v, uneven) for g, v in zip(gradients, variables, strict=True)]

    def _kind_of(self, gradient: Any, variable: Any, uneven: set[int]) -> _SliceKind:
        shape = tuple(int(n) for n in variable.shape)
        if not isinstance(gradient, tf.IndexedSlices):
            return _SliceKind((), shape)
        looked_up = () if self._rows is None else _look_ups(gradient.indices, uneven)
        width = gradient.values.dtype.size
        dense_bytes = prod(shape) * width
        slice_bytes = (self._rows or 0) * sum(looked_up) * (prod(shape[1:]) * width + 4)
        if not looked_up or shape[0] >= _EXACT or slice_bytes > max(dense_bytes, _SMALL_BYTES):
            if not _is_whole(gradient.indices):
                self.summed[getattr(variable, "path", variable.name)] = dense_bytes
            return _SliceKind((), shape)
        return _SliceKind(looked_up, shape)


def places_of(places: Sequence[Any]) -> list[Segment]:
    """Segments of an exchange for the *places* from :meth:`EmbeddingRows.fill`. Pure."""
    return [Segment("places", (int(place.shape[0]),), "float32") for place in places]


def from_row(first_row: Any, rows: Any, most_rows: int | None) -> Placed:
    """Placement function for *rows* consecutive rows.

    Args:
        first_row: number of the first row in the global batch, a float scalar.
        rows: number of rows, a scalar.
        most_rows: number of rows of the largest batch; None if there are no slots.
    """

    def placed(tensor: Any) -> Any:
        first = tf.cast(first_row, tf.int32)
        return tf.pad(tensor, [[first, (most_rows or 0) - first - rows], [0, 0]])

    return placed


def _uneven(batch: Any) -> set[int]:
    """Identities of the tensors of *batch* whose rows have different numbers of values."""
    leaves = [leaf for leaf in tf.nest.flatten(batch) if not isinstance(leaf, tf.Tensor)]
    return {id(part) for leaf in leaves for part in keras_hooks.components_of(leaf)}


def _look_ups(indices: Any, uneven: set[int]) -> tuple[int, ...]:
    """Number of *indices* per row of the batch, by look-up; () if unknown.

    It is read from the graph, so it is unknown for tensors that were computed eagerly.
    """
    if hasattr(indices, "numpy"):
        return ()
    operation = indices.op
    if operation.type == "ConcatV2":  # several look-ups of the same table
        pieces = [_look_ups(piece, uneven) for piece in operation.inputs[:-1]]
        return tuple(n for piece in pieces for n in piece) if all(pieces) else ()
    if operation.type in ("Cast", "Identity"):
        return _look_ups(operation.inputs[0], uneven)
    if operation.type != "Reshape":
        return ()
    looked_up = operation.inputs[0]
    shape = looked_up.shape.as_list() if looked_up.shape.rank else [1]
    if shape[0] is not None or None in shape[1:] or not _is_by_rows(looked_up, uneven, _DEPTH):
        return ()
    return (prod(shape[1:]),)


def _is_by_rows(tensor: Any, uneven: set[int], depth: int) -> bool:
    """Whether the first axis of *tensor* is the batch's, by its graph up to the step's inputs."""
    operation = tensor.op
    if operation.type == "Placeholder":
        return tensor.dtype != tf.resource and id(tensor) not in uneven
    if operation.type == "RaggedTensorToTensor":  # as TextVectorization ends
        return _is_row_count(operation, uneven, depth)
    if operation.type not in _BY_ROWS or not depth:
        return False
    free = [i for i in operation.inputs if i.shape.rank and i.shape[0] is None]
    return bool(free) and all(_is_by_rows(each, uneven, depth - 1) for each in free)


def _is_row_count(padding: Any, uneven: set[int], depth: int) -> bool:
    """Whether *padding* returns one row per row of ragged inputs, or of texts that were split."""
    kind, partition = padding.get_attr("row_partition_types")[0], padding.inputs[3]
    if kind == b"ROW_SPLITS":
        return id(partition) in uneven
    source = partition.op.inputs[0] if partition.op.type == "StridedSlice" else partition
    if source.op.type != "StringSplitV2" or source is not source.op.outputs[2]:
        return False
    is_first = tf.get_static_value(partition.op.inputs[1]) == [0]
    return bool(is_first) and _is_by_rows(source.op.inputs[0], uneven, depth - 1)


def _is_whole(indices: Any) -> bool:
    """Whether the number of look-ups does not depend on the batch, as for positions."""
    return indices.shape.rank == 1 and indices.shape[0] is not None
