"""Rows of a random tensor without the rows before them: TensorFlow's draws are addressable.

A stateless draw is Philox in counter mode (Salmon et al., Parallel random numbers: as easy as 1, 2,
3, 2011): number i of a tensor follows from a key, and from a counter that has a start value and
increases with i. So a rank that advances the counter gets, bit for bit, the numbers that one
process gets in those rows of the whole batch's tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["rows_from", "rows_of_draw"]

# Counters that are set aside for each number, by 4 bytes, where numbers are drawn until one fits.
_TRIED_AGAIN = 64


def rows_of_draw(
    draw: Callable[[Any, Any], Any],
    counter: Any,
    places: Any,
    row_shape: Any,
    dtype: Any,
    *,
    tries: bool = False,
) -> Any:
    """The rows *places* of the tensor that ``draw(shape, counter)`` gives. Local.

    Args:
        draw: draw of a tensor of a shape that begins at a counter; such as
            ``tf.raw_ops.StatelessRandomUniformV2`` with a key.
        counter: counter at which the whole tensor begins, uint64, shape (2,), low word first.
        places: places of the rows in the whole tensor, an int32 vector. Rows between the first
            and the last of them are drawn, too.
        row_shape: shape of a row, an int32 vector.
        dtype: dtype of the numbers that are drawn.
        tries: whether each number may take several draws, as one of a truncated normal
            distribution does. False by default.
    """
    group = _group(dtype)
    last = tf.reduce_max(tf.concat([places + 1, [0]], 0))
    first = tf.minimum(tf.reduce_min(places), last)
    size = tf.reduce_prod(tf.cast(row_shape, tf.int64))
    begin = tf.cast(first, tf.int64) * size
    groups = begin // group
    skipped = begin - groups * group
    length = tf.cast(last - first, tf.int64) * size
    steps = groups * _counters(group, tries)
    flat = draw(tf.reshape(length + skipped, (1,)), _moved(counter, steps))
    shape = tf.concat([tf.reshape(last - first, (1,)), row_shape], 0)
    return tf.gather(tf.reshape(flat[skipped:], shape), places - first)


def rows_from(
    draw: Callable[[Any, Any], Any],
    counter: Any,
    first: Any,
    shape: Any,
    row_size: int | None,
    dtype: Any,
    *,
    tries: bool = False,
) -> Any:
    """The rows from place *first* on, by fewer operations than :func:`rows_of_draw`. Local.

    Args:
        draw: see :func:`rows_of_draw`, as are *counter*, *dtype* and *tries*.
        counter: counter at which the whole tensor begins.
        first: place of the first row, a scalar.
        shape: shape of the rows, an int32 vector.
        row_size: count of a row's numbers; None if not known statically.
        dtype: dtype of the numbers.
        tries: whether each number may take several draws.
    """
    group = _group(dtype)
    first = tf.cast(first, tf.int64)
    if row_size is not None and row_size % group == 0:
        steps = first * (row_size // group * _counters(group, tries))
        return draw(shape, _moved(counter, steps))
    size = tf.reduce_prod(tf.cast(shape[1:], tf.int64)) if row_size is None else row_size
    groups = first * size // group
    skipped = first * size - groups * group
    length = tf.reduce_prod(tf.cast(shape, tf.int64)) + skipped
    flat = draw(tf.reshape(length, (1,)), _moved(counter, groups * _counters(group, tries)))
    return tf.reshape(flat[skipped:], shape)


def _group(dtype: Any) -> int:
    """Number of values that one counter yields."""
    return 2 if tf.dtypes.as_dtype(dtype).size == 8 else 4


def _counters(group: int, tries: bool) -> int:
    """The count of counters that are set aside for a *group* of numbers."""
    return _TRIED_AGAIN * group if tries else 1


def _moved(counter: Any, steps: Any) -> Any:
    """128 bits of *counter*, advanced by *steps*."""
    low = counter[0] + tf.cast(steps, tf.uint64)
    carry = tf.cast(low < counter[0], tf.uint64)
    return tf.stack([low, counter[1] + carry])
