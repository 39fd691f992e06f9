"""Rows of tensors, dense, sparse and ragged: to count, to cut, to choose, to join and to hash."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree

from matex.errors import NotShareable

__all__ = [
    "are_rows",
    "chosen_rows",
    "components_of",
    "cut_rows",
    "in_pieces",
    "is_free",
    "joined",
    "known_rows",
    "out_of_pieces",
    "row_count",
    "rows_traced",
    "shortened",
    "sizes_of",
    "split_rows",
    "values_of_row",
    "with_free_axes",
    "with_rows",
    "zeros_as",
    "zeros_by_row",
]


def are_rows(spec: Any) -> bool:
    """Whether tensors of *spec* have rows that can be divided."""
    return isinstance(spec, tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec)


def with_rows(specs: Any, rows: int | None) -> Any:
    """The structure *specs* with *rows* as the number of rows; None stands for any number."""
    return tree.map_structure(lambda spec: _with_rows(spec, rows), specs)


def _with_rows(spec: Any, rows: int | None) -> Any:
    if spec.shape.rank is None:
        return spec
    shape = [rows, *spec.shape[1:]]
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(shape, spec.dtype)
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return tf.TensorSpec(shape, spec.dtype)


def with_free_axes(specs: Sequence[Any], axes: Collection[tuple[int, int]]) -> tuple[Any, ...]:
    """The specifications *specs*, of any size along *axes*: numbers of a dense one and its axis."""

    def freed(number: int, spec: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec):
            return spec
        sizes = enumerate(spec.shape)
        return tf.TensorSpec([None if (number, a) in axes else n for a, n in sizes], spec.dtype)

    return tuple(freed(number, spec) for number, spec in enumerate(specs))


def sizes_of(tensors: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Sizes of the dense ones of *tensors* along all axes but the first; () for the others."""
    return tuple(
        tuple(tensor.shape[1:]) if isinstance(tensor, tf.Tensor) else () for tensor in tensors
    )


def is_free(batch: Any) -> bool:
    """Whether a tensor of *batch*, a structure of specifications, may have any number of rows."""
    specs = [spec for spec in tree.flatten(batch) if are_rows(spec)]
    return any(spec.shape.rank is None or spec.shape[:1] == [None] for spec in specs)


def row_count(tensor: Any) -> int:
    """Number of rows of an eager *tensor*; -1 for a scalar."""
    if not tensor.shape.rank:
        return -1
    if isinstance(tensor, tf.RaggedTensor):
        return int(tensor.nrows())
    return int(tensor.shape[0])


def values_of_row(tensor: Any) -> int:
    """Number of values of the longest row of an eager *tensor*; 1 for a scalar."""
    if isinstance(tensor, tf.RaggedTensor):
        return math.prod(tensor.bounding_shape().numpy().tolist()[1:])
    return math.prod(tensor.shape[1:])


def rows_traced(batch: Any) -> Any:
    """Number of rows of *batch*, a structure of tensors that may be traced; an int32 scalar."""
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return first.nrows(out_type=tf.int32)
    return tf.cast(tf.shape(first)[0], tf.int32)


def known_rows(batch: Any) -> int | None:
    """Number of rows of *batch*, a structure of tensors; None in a graph for any number of rows."""
    shape = tf.nest.flatten(batch)[0].shape
    rows: int | None = shape[0] if shape.rank else None
    return rows


def cut_rows(tensor: Any, lo: int, hi: int) -> Any:
    """The rows of *tensor* from *lo* to before *hi*."""
    if isinstance(tensor, tf.SparseTensor):
        _, *row = tf.unstack(tensor.dense_shape)
        return tf.sparse.slice(tensor, [lo, *([0] * len(row))], [hi - lo, *row])
    if not isinstance(tensor, tf.Tensor) or not tf.executing_eagerly():
        return tensor[lo:hi]
    lo, hi = min(lo, tensor.shape[0]), min(hi, tensor.shape[0])
    begin, size = _bounds(lo, hi - lo, tensor.shape.rank)
    return tf.raw_ops.Slice(input=tensor, begin=begin, size=size)


@functools.lru_cache(maxsize=256)
def _bounds(lo: int, count: int, rank: int) -> tuple[Any, Any]:
    """Begin and size of a slice of rows, for ``tf.raw_ops.Slice``.

    To make them takes ten times as long as to cut.
    """
    others = rank - 1
    return tf.constant([lo] + [0] * others), tf.constant([count] + [-1] * others)


def split_rows(tensor: Any, sizes: Sequence[int]) -> list[Any]:
    """All rows of *tensor* in consecutive pieces of *sizes* rows."""
    if isinstance(tensor, tf.SparseTensor | tf.RaggedTensor):
        ends = list(itertools.accumulate(sizes))
        return [cut_rows(tensor, end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return list(tf.split(tensor, list(sizes)))


def chosen_rows(tensor: Any, places: Iterable[int]) -> Any:
    """Rows of *tensor* at *places*, in this order."""
    if isinstance(tensor, tf.SparseTensor):
        return joined([cut_rows(tensor, place, place + 1) for place in places])
    return tf.gather(tensor, list(places))


def joined(parts: Sequence[Any]) -> Any:
    """Concatenation of *parts* along the first axis."""
    if isinstance(parts[0], tf.SparseTensor):
        return tf.sparse.concat(0, list(parts))
    return tf.concat(list(parts), 0)


def in_pieces(tensor: Any, number: int) -> Any:
    """Dense *tensor* of which each row has *number* rows that lay one behind the other."""
    return tensor if number == 1 else tf.reshape(tensor, (-1, number, *tensor.shape[1:]))


def out_of_pieces(tensor: Any, number: int) -> Any:
    """The tensor of which :func:`in_pieces` has made *tensor*, or some of its rows."""
    if number == 1:
        return tensor
    lengths = tf.shape(tensor)
    inner = [n or lengths[axis] for axis, n in enumerate(tensor.shape[2:], start=2)]
    return tf.reshape(tensor, (-1, *inner))


def components_of(tensor: Any) -> list[Any]:
    """The dense tensors of which *tensor* consists."""
    return list(tf.nest.flatten(tensor, expand_composites=True))


def zeros_by_row(tensor: Any) -> np.ndarray:
    """Fraction of each row of *tensor* that is zero, empty or missing: shape (rows,)."""
    if isinstance(tensor, tf.SparseTensor):  # it may have more columns than there is memory for
        rows, *row = tensor.dense_shape.numpy().tolist()
        there = np.bincount(tensor.indices[:, 0].numpy(), minlength=rows)
        return np.asarray(1 - there / max(1, math.prod(row)))
    values = np.asarray(tensor.to_tensor() if isinstance(tensor, tf.RaggedTensor) else tensor)
    nothing = values == (b"" if values.dtype == object else 0)
    return nothing.reshape(len(values), -1).mean(1) if values.size else np.zeros(len(values))


def shortened(tensor: Any, first: int, *, alike: bool) -> Any:
    """A ragged tensor, or one of texts, whose rows past the *first* are shorter.

    Other tensors are returned as they are, and so are rows of one value or one word.

    Args:
        alike: whether all of them get the length of the shortest; else each gets half its own.
    """
    if isinstance(tensor, tf.RaggedTensor):
        rows = [tensor[row] for row in range(int(tensor.nrows()))]
        lengths = [int(row.nrows()) if tensor.ragged_rank > 1 else len(row) for row in rows]
        ends = _shorter(lengths, first, alike=alike)
        cut = [row[:end] for row, end in zip(rows, ends, strict=True)]
        if ends == lengths:
            return tensor
        return tf.ragged.stack(cut).with_row_splits_dtype(tensor.row_splits.dtype)
    if not (isinstance(tensor, tf.Tensor) and tensor.dtype == tf.string):
        return tensor
    texts = tensor.numpy()
    words = [text.split() for text in texts.ravel()]
    lengths = [len(row) for row in words]
    ends = _shorter(lengths, first * max(1, texts.size // max(1, len(texts))), alike=alike)
    if ends == lengths:
        return tensor
    cut = [b" ".join(row[:end]) for row, end in zip(words, ends, strict=True)]
    return tf.constant(np.array(cut, object).reshape(texts.shape), tf.string)


def _shorter(lengths: list[int], first: int, *, alike: bool) -> list[int]:
    rest = lengths[first:]
    return lengths[:first] + [min(rest) if alike else (length + 1) // 2 for length in rest]


def zeros_as(spec: Any, rows: int) -> Any:
    """Zeros of the shape of *spec*, with *rows* in place of free sizes; None for None.

    Raises:
        NotShareable: its tensors are not dense, or of no known rank.
    """
    if spec is None:
        return None
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        raise NotShareable("a step that runs eagerly chooses its metrics by the first batch")
    return tf.zeros([rows if size is None else size for size in spec.shape], spec.dtype)
