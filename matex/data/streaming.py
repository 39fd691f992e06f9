"""Reading with TensorFlow: pictures decoded in graphs, and rows as a tf.data pipeline."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from matex.data.arrays import Table, as_table
from matex.data.bmp import has_palette, palette_pixels
from matex.data.picture_heads import (
    OTHER,
    OTHER_SMALLER,
    RATIOS,
    CutPlan,
    Window,
    check_same_size,
    check_whole,
    middle,
    plan,
    random_window,
    size_in_head,
    uniform,
)
from matex.data.rows import Rows
from matex.errors import DataError, InputError

__all__ = ["as_dataset", "decode_batch", "without_palette"]

# TensorFlow says the reason behind the operation that it was in, and then where that stands.
_REASON = re.compile(r"Map\w*: ([^\n]+)")
Size = tuple[int, int]
_BLOCK = 1024  # row numbers that are shuffled at once


def as_dataset(
    x: Any,
    y: Any = None,
    *,
    batch_size: int = 32,
    shuffle: int | None = None,
    crop: float = 1.0,
    flip: bool = False,
) -> tf.data.Dataset:
    """Stream rows by tf.data: each is read when it is due, and none is kept. Local.

    Several ranks share it: each reads, decodes and augments its own rows of a batch only.

    Args:
        x: rows that :func:`matex.data.open` gives, or an array.
        y: rows of as many labels; none by default.
        batch_size: rows of a batch, of all ranks together; 32 by default.
        shuffle: seed of the order, and of what is random in *crop* and *flip*, both others in each
            epoch; by default rows come as they lie, with the same parts in each epoch.
        crop: smallest share of a picture's area that a random part of it has, between 0 and 1,
            which is scaled to the picture's size; 1, the default, for the middle.
        flip: whether half of the pictures, by chance, are turned left to right; off by default.

    Returns:
        A dataset of batches of ``(x, y)``, or of ``x`` alone, two of them read ahead.

    Raises:
        InputError: numbers of rows differ, or *crop* or *flip* is given for data without pictures.

    Example:
        >>> batches = data.as_dataset(np.arange(4.0), np.arange(4), batch_size=4, shuffle=1)
        >>> [sorted(y.numpy().tolist()) for x, y in batches]
        [[0, 1, 2, 3]]
    """
    table = as_table(x, "x")
    count = table.shape[0]
    labels = None if y is None else as_table(y, "y")
    if labels is not None and labels.shape[0] != count:
        raise InputError(
            f"x and y must have the same number of rows. Received: {count} and {labels.shape[0]}"
        )
    if not 0 < crop <= 1:
        raise InputError(f"crop must be above 0 and at most 1. Received: crop={crop}")
    if (crop < 1 or flip) and len(table.shape) != 4:
        raise InputError(
            "crop and flip want pictures, (rows, height, width, channels). "
            f"Received: x of shape {table.shape}"
        )
    encoded = isinstance(table, Rows) and table.is_encoded
    pictures = (_encoded if encoded else _stored)(table, crop, flip)
    label = None if labels is None else _values_of(labels)

    @tf.autograph.experimental.do_not_convert
    def read(rows: Any, seeds: Any) -> Any:
        images = pictures(rows, seeds)
        images = tf.ensure_shape(images, (None, *table.shape[1:]))
        return images if label is None else (images, label(rows))

    batches = _numbers(count, shuffle).batch(batch_size).map(read)
    batches._matex_by_rows = True  # its result for a row does not depend on the batch
    return batches.prefetch(2)


def _numbers(count: int, shuffle: int | None) -> tf.data.Dataset:
    """Row numbers, each with a seed that is the epoch's."""
    if shuffle is None:
        seed = tf.constant(0, tf.int64)
        return tf.data.Dataset.range(count).map(lambda row: (row, seed))

    @tf.autograph.experimental.do_not_convert
    def epoch(seeds: Any) -> tf.data.Dataset:
        @tf.autograph.experimental.do_not_convert
        def block(lo: Any) -> Any:
            rows = tf.range(lo, tf.minimum(lo + _BLOCK, count))
            # A permutation by arithmetic: nothing that grows with the number of rows is held.
            most = tf.constant(count - 1, tf.int64)
            rows = tf.random.experimental.index_shuffle(rows, seeds[:2], most)
            return rows, tf.fill(tf.shape(rows), seeds[2])

        return tf.data.Dataset.range(0, count, _BLOCK).map(block).unbatch()

    seeds = tf.data.Dataset.random(shuffle, rerandomize_each_iteration=True)
    seeds = seeds.batch(3, drop_remainder=True).take(1)
    return seeds.flat_map(epoch).apply(tf.data.experimental.assert_cardinality(count))


def _encoded(table: Any, crop: float, flip: bool) -> Callable[[Any, Any], Any]:
    """The pixels of images that are stored encoded: read by Python, decoded in the graph."""
    size = table.shape[1:3]

    def read(rows: np.ndarray, seeds: np.ndarray) -> tuple[Any, ...]:
        contents, plans = [], []
        numbers = uniform(seeds, rows, 5)
        for place, row in enumerate(rows.tolist()):
            where, content = table.encoded(row)
            height, width = size_in_head(content, where)
            if table.cut_to is None:
                check_same_size((height, width), size, where)
            if lack := check_whole(content):
                raise DataError(f"{where} must be a whole image. Received: {lack}")
            if crop < 1:
                window = random_window(height, width, size, crop, numbers[place, :4].tolist())
            else:
                window = middle(height, width, size)
            contents.append(without_palette(content, where))
            plans.append(plan(content, window, size))
        return np.array(contents, object), *_plan_arrays(plans), numbers[:, 4] < 0.5

    def images(rows: Any, seeds: Any) -> Any:
        kinds = (tf.string, tf.int32, tf.int32, tf.bool)
        found = tf.numpy_function(read, [rows, seeds], kinds, stateful=False)
        for tensor, shape in zip(found, ((None,), (None,), (None, 4), (None,)), strict=True):
            tensor.set_shape(shape)
        content, way, window, turned = found
        return _decoded_batch(content, way, window, turned if flip else None, size)

    return images


def _stored(table: Table, crop: float, flip: bool) -> Callable[[Any, Any], Any]:
    """Function that reads rows as stored, or random parts of pictures, scaled or flipped."""
    values = _values_of(table)
    if crop == 1 and not flip:
        return lambda rows, seeds: values(rows)
    height, width = table.shape[1:3]
    dtype = tf.as_dtype(table.dtype)

    def boxes(rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Corners of the parts, as fractions, exchanged for flipped pictures."""
        found = []
        for *four, fifth in uniform(seeds, rows, 5).tolist():
            part = Window(0, 0, height, width)
            if crop < 1:
                part = random_window(height, width, (height, width), crop, four)
            sides = [part.left, part.left + part.width - 1]
            sides = sides[::-1] if flip and fifth < 0.5 else sides
            found.append([part.top, sides[0], part.top + part.height - 1, sides[1]])
        return np.array(found) / (np.maximum([height, width] * 2, 2) - 1)

    def images(rows: Any, seeds: Any) -> Any:
        found = tf.numpy_function(boxes, [rows, seeds], tf.float64, stateful=False)
        found = tf.cast(tf.ensure_shape(found, (None, 4)), tf.float32)
        every = tf.range(tf.shape(rows)[0])
        scaled = tf.image.crop_and_resize(values(rows), found, every, (height, width))
        return tf.cast(scaled if dtype.is_floating else tf.round(scaled), dtype)

    return images


def _values_of(table: Table) -> Callable[[Any], Any]:
    def read(rows: np.ndarray) -> np.ndarray:
        return table.rows(rows)

    def values(rows: Any) -> Any:
        found = tf.numpy_function(read, [rows], tf.as_dtype(table.dtype), stateful=False)
        return tf.ensure_shape(found, (None, *table.shape[1:]))

    return values


def without_palette(content: bytes, where: str) -> bytes:
    """The picture encoded so that TensorFlow decodes it: a BMP with a palette becomes a PNG."""
    if not has_palette(content):
        return content
    with tf.device("CPU"):
        png: bytes = tf.io.encode_png(palette_pixels(content, where)).numpy()
    return png


def decode_batch(
    contents: Sequence[bytes], plans: Sequence[CutPlan], size: tuple[int, int]
) -> np.ndarray:
    """The pictures *contents*, cut and scaled to *size*, uint8. Local.

    Raises:
        ValueError: a picture is damaged; the message gives the reason.
    """
    try:
        with tf.device("CPU"):
            decoded = _batch_graph(*size)(np.array(contents, object), *_plan_arrays(plans))
    except tf.errors.InvalidArgumentError as error:
        found = _REASON.search(error.message)
        raise ValueError(found[1] if found else error.message.partition("\n")[0]) from None
    return np.asarray(decoded)  # numpy() would copy them


def _plan_arrays(plans: Sequence[CutPlan]) -> tuple[np.ndarray, np.ndarray]:
    ways = np.array([one.way for one in plans], np.int32)
    return ways, np.array([one.window for one in plans], np.int32)


@functools.cache
def _batch_graph(height: int, width: int) -> Any:
    def decoded(contents: Any, ways: Any, windows: Any) -> Any:
        return _decoded_batch(contents, ways, windows, None, (height, width))

    specs = ((None,), tf.string), ((None,), tf.int32), ((None, 4), tf.int32)
    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in specs]
    return tf.function(decoded, input_signature=signature, autograph=False)


def _decoded_batch(contents: Any, ways: Any, windows: Any, turned: Any, size: Size) -> Any:
    """Decode pictures in parallel by all threads; in a graph.

    Args:
        ways, windows: plans, as :class:`CutPlan` has them.
        turned: whether each picture is flipped left to right; None for none.
    """
    given = [contents, ways, windows] + ([] if turned is None else [turned])

    def all_by(scaled: Callable[[Any, Any, Any], Any]) -> Any:
        @tf.autograph.experimental.do_not_convert
        def one(content: Any, way: Any, window: Any, *turned: Any) -> Any:
            pixels = tf.cast(tf.round(scaled(content, way, window)), tf.uint8)
            if not turned:
                return pixels
            # One axis to turn, or none: neither a branch nor a choice, which take longer.
            return tf.reverse(pixels, tf.constant([1])[: tf.cast(turned[0], tf.int32)])

        pictures = tf.data.Dataset.from_tensor_slices(tuple(given))
        pictures = pictures.map(one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        count = tf.shape(ways, tf.int64)[0]
        return pictures.take(count).batch(count).get_single_element()

    def jpeg(ratio: int, content: Any, window: Any) -> Any:
        image = tf.io.decode_and_crop_jpeg(content, window, channels=3, ratio=ratio)
        return tf.image.resize(image, size)

    def other(antialias: bool, content: Any, window: Any) -> Any:
        image = tf.io.decode_image(content, channels=3, expand_animations=False)
        image.set_shape((None, None, 3))
        top, left, height, width = tf.unstack(window)
        inside = image[top : top + height, left : left + width]
        return tf.image.resize(inside, size, antialias=antialias)

    ways_to: dict[int, Callable[[Any, Any], Any]] = {
        way: functools.partial(jpeg, ratio) for way, ratio in enumerate(RATIOS)
    }
    ways_to |= {
        OTHER: functools.partial(other, False),
        OTHER_SMALLER: functools.partial(other, True),
    }

    def any_way(content: Any, way: Any, window: Any) -> Any:
        branches = {k: functools.partial(go, content, window) for k, go in ways_to.items()}
        return tf.switch_case(way, branches)

    # A branch a picture takes a tenth of its time: most batches are of JPEGs of the usual size.
    return tf.cond(
        tf.reduce_all(tf.equal(ways, 0)),
        lambda: all_by(lambda content, way, window: ways_to[0](content, window)),
        lambda: all_by(any_way),
    )
