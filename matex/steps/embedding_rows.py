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

Where rows have free lengths, each has slots for a longer one than the batches had so far. For a
batch that is longer still the step is built anew, with more slots, before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from matex import keras_hooks
from matex.exchange.layout import Segment
from matex.keras_hooks.rows import known_rows
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.look_ups import LookUp, look_ups, pieces_of

__all__ = ["EmbeddingRows", "Placed", "from_row", "places_of"]

#: Function of a tensor with a rank's rows that returns one with the rows of the largest batch: each
#: row in its place, zeros in the others.
Placed = Callable[[Any], Any]

_T = TypeVar("_T")

# Indices travel as float32, which is exact for integers up to this value.
_EXACT = 1 << 24

# Slices may exceed the dense gradient by this many bytes, to keep Keras's results.
_SMALL_BYTES = 8 << 20


class _SliceKind(NamedTuple):
    """Look-ups whose slices a gradient is made of; () for a dense gradient."""

    looked_up: tuple[LookUp, ...]
    shape: tuple[int, ...]
    """Shape of the variable."""
    slots: tuple[int, ...] = ()
    """Number of slots of each row, by look-up."""

    @property
    def tensors(self) -> set[int]:
        """Numbers of the tensors of the batch whose free lengths matter."""
        return {number for look_up in self.looked_up for number in look_up.tensors}


class EmbeddingRows:
    """Slots of one traced step. Local.

    Which gradients are slices shows in a graph for any number of rows. A later graph of the same
    step for a known number has the same slots.

    ``whole_tables`` maps the names of variables whose slices are made dense to their bytes: the
    slices take more memory, or cannot be assigned to rows.

    Args:
        capacity: slots for the largest global batch so far; None if unknown or if slices must not
            be used: then all gradients are dense.
    """

    def __init__(self, capacity: SlotCapacity | None) -> None:
        self._capacity = capacity
        self._kinds: list[_SliceKind] = []
        self.whole_tables: dict[str, int] = {}
        self._counts: dict[str, dict[int | None, int]] = {}  # look-ups of eager batches, by rows

    @property
    def has_slots(self) -> bool:
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

    def holds(self, capacity: SlotCapacity | None) -> bool:
        """Whether batches that need *capacity* need no more slots than there are."""
        if not self.has_slots:
            return True
        tensors = [number for kind in self._kinds for number in kind.tensors]
        return (
            self._capacity is not None
            and capacity is not None
            and self._capacity.holds(capacity, tensors)
        )

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
            counts = _counts(kind, gradient.indices, rows)
            flat = tf.reshape(gradient.values, (-1, width))
            values.append(self._slots(flat, kind, counts, rows, placed))
            place = tf.cast(tf.reshape(gradient.indices, (-1, 1)), tf.float32)
            places.append(tf.reshape(self._slots(place, kind, counts, rows, placed), (-1,)))
        return self.in_order(values), places

    def _slots(
        self, slices: Any, kind: _SliceKind, counts: list[Any], rows: Any, placed: Placed
    ) -> Any:
        """Slots with the *slices* of some rows, of which each has *counts*, by look-up."""
        assert self._capacity is not None
        width, most = slices.shape[1], self._capacity.rows
        blocks = []
        # Fails if the number of slices differs from the number that rows bring.
        for block, count, slots in zip(
            tf.split(slices, [rows * n for n in counts]), counts, kind.slots, strict=True
        ):
            of_rows = tf.reshape(block, (rows, count * width))
            if count is not slots:
                of_rows = tf.pad(of_rows, [[0, 0], [0, (slots - count) * width]])
                of_rows = tf.ensure_shape(of_rows, (None, slots * width))
            of_all = tf.ensure_shape(placed(of_rows), (most, slots * width))
            blocks.append(tf.reshape(of_all, (most * slots, width)))
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
        return [self._kind_of(g, v, batch) for g, v in zip(gradients, variables, strict=True)]

    def _kind_of(self, gradient: Any, variable: Any, batch: Any) -> _SliceKind:
        shape = tuple(int(n) for n in variable.shape)
        if not isinstance(gradient, tf.IndexedSlices):
            return _SliceKind((), shape)
        capacity = self._capacity or SlotCapacity(0)
        looked_up = tuple(look_ups(gradient.indices, batch) if self._capacity else ())
        if not all(each.is_bounded_by(capacity) for each in looked_up):
            looked_up = ()
        slots = tuple(each.per_row(capacity) for each in looked_up)
        width = gradient.values.dtype.size
        dense_bytes = prod(shape) * width
        slice_bytes = capacity.rows * sum(slots) * (prod(shape[1:]) * width + 4)
        if not looked_up or shape[0] >= _EXACT or slice_bytes > max(dense_bytes, _SMALL_BYTES):
            name = getattr(variable, "path", variable.name)
            if not self._is_whole(name, gradient.indices, batch):
                self.whole_tables[name] = dense_bytes
            return _SliceKind((), shape)
        return _SliceKind(looked_up, shape, slots)

    def _is_whole(self, name: str, indices: Any, batch: Any) -> bool:
        """Whether the number of look-ups does not depend on the batch, as for positions.

        Outside a graph each number is known; it is compared for batches of other sizes, such as
        those of a trial.
        """
        if indices.shape.rank != 1 or indices.shape[0] is None:
            return False
        if not tf.executing_eagerly():
            return True
        counts = self._counts.setdefault(name, {})
        counts[known_rows(batch)] = indices.shape[0]
        return len({*counts.values()}) == 1


def places_of(places: Sequence[Any]) -> list[Segment]:
    """Segments of an exchange for the *places* from :meth:`EmbeddingRows.fill`. Pure."""
    return [Segment("places", (int(place.shape[0]),), "float32") for place in places]


def from_row(first_row: Any, rows: Any, most_rows: int) -> Placed:
    """Placement function for *rows* consecutive rows.

    Args:
        first_row: number of the first row in the global batch, a float scalar.
        rows: number of rows, a scalar.
        most_rows: number of rows of the largest batch; 0 if there are no slots.
    """

    def placed(tensor: Any) -> Any:
        first = tf.cast(first_row, tf.int32)
        return tf.pad(tensor, [[first, most_rows - first - rows], [0, 0]])

    return placed


def _counts(kind: _SliceKind, indices: Any, rows: Any) -> list[Any]:
    """Number of slices of each of *rows* rows, by look-up: those of *kind* where all are known."""
    if not kind.tensors:
        return list(kind.slots)
    sizes = [tf.shape(piece)[0] for piece in pieces_of(indices)]
    return [size // tf.maximum(rows, 1) for size in sizes]
