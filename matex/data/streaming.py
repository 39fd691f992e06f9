"""TensorFlow's part of reading: pictures decoded in its graphs, and rows as a tf.data pipeline."""

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
)
from matex.data.rows import Rows
from matex.errors import DataError, InputError

__all__ = ["as_dataset", "decode_batch", "without_palette"]

# What TensorFlow says before and behind the reason: the operations it was in.
_AROUND = re.compile(r"\{\{function_node .*?\}\} |Error in user-defined function.*?error: ")
_BLOCK = 1024  # row numbers that are shuffled at once


def as_dataset(
    x: Any, y: Any = None, *, shuffle: int | None = None, crop: float = 1.0, flip: bool = False
) -> tf.data.Dataset:
    """Stream rows by tf.data: each is read when its turn comes, and none is kept. Local.

    Batch it as usual, ``as_dataset(x, y, shuffle=1).batch(256).prefetch(2)``, with further maps
    before the batch. Several ranks share it: each reads, decodes and augments its own rows only.

    Args:
        x: rows that :func:`matex.data.open` gives, or an array.
        y: rows of as many labels; none by default.
        shuffle: seed of the order, and of what is random in *crop* and *flip*, both others in each
            epoch; by default rows come as they lie, with the same parts in each epoch.
        crop: smallest share of a picture's area that a random part of it has, between 0 and 1,
            which is scaled to the picture's size; 1, the default, for the middle.
        flip: whether half of the pictures, by chance, are turned left to right; off by default.

    Returns:
        A dataset of ``(x, y)``, or of ``x`` alone, a row an element.

    Raises:
        InputError: numbers of rows differ, or random parts are wanted of what are no pictures.

    Example:
        >>> rows = data.as_dataset(np.arange(4.0), np.arange(4), shuffle=1)
        >>> sorted(int(y) for x, y in rows)
        [0, 1, 2, 3]
    """
    tables = [as_table(x, "x")] + ([] if y is None else [as_table(y, "y")])
    counts = {table.shape[0] for table in tables}
    if len(counts) > 1:
        raise InputError(f"x and y must have the same number of rows. Received: {counts}")
    if not 0 < crop <= 1:
        raise InputError(f"crop must be above 0 and at most 1. Received: crop={crop}")
    if (crop < 1 or flip) and len(tables[0].shape) != 4:
        raise InputError(
            "crop and flip want pictures, (rows, height, width, channels). "
            f"Received: x of shape {tables[0].shape}"
        )
    encoded = isinstance(tables[0], Rows) and tables[0].is_encoded
    image = _encoded_row(tables[0], crop) if encoded else _plain_row(tables[0], crop)
    label = _values_of(tables[1]) if len(tables) > 1 else None

    @tf.autograph.experimental.do_not_convert
    def read(row: Any, seed: Any = 0) -> Any:
        numbers = tf.random.stateless_uniform((5,), tf.stack([seed, row]))
        pixels = image(row, numbers)
        if flip:
            pixels = tf.cond(numbers[4] < 0.5, lambda: tf.reverse(pixels, [1]), lambda: pixels)
        pixels = tf.ensure_shape(pixels, tables[0].shape[1:])
        return pixels if label is None else (pixels, label(row))

    return _numbers(tables[0].shape[0], shuffle).map(read, tf.data.AUTOTUNE)


def _numbers(count: int, shuffle: int | None) -> tf.data.Dataset:
    """Row numbers; where they are shuffled, each with a seed that is the epoch's."""
    if shuffle is None:
        return tf.data.Dataset.range(count)

    @tf.autograph.experimental.do_not_convert
    def epoch(seeds: Any) -> tf.data.Dataset:
        @tf.autograph.experimental.do_not_convert
        def block(lo: Any) -> Any:
            rows = tf.range(lo, tf.minimum(lo + _BLOCK, count))
            # A permutation by arithmetic: nothing that grows with the number of rows is held.
            rows = tf.random.experimental.index_shuffle(
                rows, seeds[:2], tf.constant(count - 1, tf.int64)
            )
            return rows, tf.fill(tf.shape(rows), seeds[2])

        return tf.data.Dataset.range(0, count, _BLOCK).map(block).unbatch()

    seeds = tf.data.Dataset.random(shuffle, rerandomize_each_iteration=True)
    seeds = seeds.batch(3, drop_remainder=True).take(1)
    return seeds.flat_map(epoch).apply(tf.data.experimental.assert_cardinality(count))


def _encoded_row(table: Any, crop: float) -> Callable[[Any, Any], Any]:
    """The pixels of an image that is stored encoded: read by Python, decoded in the graph."""
    size = table.shape[1:3]

    def read(row: np.ndarray, numbers: np.ndarray) -> tuple[Any, ...]:
        where, content = table.encoded(int(row))
        height, width = size_in_head(content, where)
        if table.cut_to is None:
            check_same_size((height, width), size, where)
        if lack := check_whole(content):
            raise DataError(f"{where} must be a whole image. Received: {lack}")
        window = _window(height, width, size, crop, numbers)
        way, window = plan(content, window, size)
        return without_palette(content, where), np.int32(way), np.array(window, np.int32)

    def image(row: Any, numbers: Any) -> Any:
        kinds = (tf.string, tf.int32, tf.int32)
        content, way, window = tf.numpy_function(read, [row, numbers], kinds, stateful=False)
        for tensor, shape in ((content, ()), (way, ()), (window, (4,))):
            tensor.set_shape(shape)
        return _decoded(content, way, window, size)

    return image


def _plain_row(table: Table, crop: float) -> Callable[[Any, Any], Any]:
    """A row as it is stored; a random part of it, scaled, where *crop* is below 1."""
    values = _values_of(table)
    if crop == 1:
        return lambda row, numbers: values(row)
    height, width = table.shape[1:3]
    dtype = tf.as_dtype(table.dtype)

    def cut(numbers: np.ndarray) -> np.ndarray:
        return np.array(_window(height, width, (height, width), crop, numbers), np.int32)

    def part(row: Any, numbers: Any) -> Any:
        window = tf.ensure_shape(tf.numpy_function(cut, [numbers], tf.int32, stateful=False), (4,))
        scaled = tf.image.resize(_inside(values(row), window), (height, width))
        return scaled if dtype.is_floating else tf.cast(tf.round(scaled), dtype)

    return part


def _values_of(table: Table) -> Callable[[Any], Any]:
    def read(row: np.ndarray) -> np.ndarray:
        return table.rows(row[None])[0]

    def values(row: Any) -> Any:
        found = tf.numpy_function(read, [row], tf.as_dtype(table.dtype), stateful=False)
        return tf.ensure_shape(found, table.shape[1:])

    return values


def _window(
    height: int, width: int, size: tuple[int, int], crop: float, numbers: np.ndarray
) -> Window:
    if crop == 1:
        return middle(height, width, size)
    return random_window(height, width, size, crop, tuple(numbers[:4].tolist()))


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
        ValueError: one of them is damaged, and why.
    """
    ways = np.array([one.way for one in plans], np.int32)
    windows = np.array([one.window for one in plans], np.int32)
    try:
        with tf.device("CPU"):
            pixels: np.ndarray = _batch_graph(*size)(list(contents), ways, windows).numpy()
    except tf.errors.InvalidArgumentError as error:
        reason = _AROUND.sub("", error.message.partition("\n")[0].partition(" [Op:")[0])
        raise ValueError(reason) from None
    return pixels


@functools.cache
def _batch_graph(height: int, width: int) -> Any:
    """A graph that decodes pictures, as many at a time as there are threads."""

    def decoded(contents: Any, ways: Any, windows: Any) -> Any:
        pictures = tf.data.Dataset.from_tensor_slices((contents, ways, windows))
        pictures = pictures.map(
            lambda content, way, window: _decoded(content, way, window, (height, width)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        count = tf.shape(ways, tf.int64)[0]
        return pictures.take(count).batch(count).get_single_element()

    specs = ((None,), tf.string), ((None,), tf.int32), ((None, 4), tf.int32)
    signature = [tf.TensorSpec(shape, dtype) for shape, dtype in specs]
    return tf.function(decoded, input_signature=signature, autograph=False)


def _decoded(content: Any, way: Any, window: Any, size: tuple[int, int]) -> Any:
    """A picture by its :class:`CutPlan`, (height, width, 3) uint8; in a graph."""

    def jpeg(ratio: int) -> Any:
        image = tf.io.decode_and_crop_jpeg(content, window, channels=3, ratio=ratio)
        return tf.image.resize(image, size)

    def other(antialias: bool) -> Any:
        image = tf.io.decode_image(content, channels=3, expand_animations=False)
        image.set_shape((None, None, 3))
        return tf.image.resize(_inside(image, window), size, antialias=antialias)

    ways = {k: functools.partial(jpeg, ratio) for k, ratio in enumerate(RATIOS)}
    ways |= {OTHER: functools.partial(other, False), OTHER_SMALLER: functools.partial(other, True)}
    scaled = tf.switch_case(way, ways)
    return tf.cast(tf.round(tf.clip_by_value(scaled, 0, 255)), tf.uint8)


def _inside(image: Any, window: Any) -> Any:
    top, left, height, width = tf.unstack(window)
    return image[top : top + height, left : left + width]
