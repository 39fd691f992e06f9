"""Decodes JPEG, PNG, GIF and BMP images to pixels of one size, by TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from matex.data.bmp import has_palette, palette_pixels
from matex.errors import DataError

__all__ = ["is_picture", "pixels", "pixels_of_all"]

_NODE = re.compile(r"^\{\{function_node .*?\}\} ")  # TensorFlow's name for what it was doing
_MARKS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM")


def is_picture(content: bytes) -> bool:
    """Whether *content* begins as an image does."""
    return content.startswith(_MARKS)


def pixels(content: bytes, size: tuple[int, int] | None, where: str) -> np.ndarray:
    """One image, shape (height, width, 3), uint8.

    Args:
        size: (height, width); the largest middle part of that shape is cut out, and scaled.
        where: file and row, for messages.

    Raises:
        DataError: no image, or cut short.
    """
    import tensorflow as tf

    if not is_picture(content):
        raise DataError(
            f"{where} must be a JPEG, PNG, GIF or BMP image. "
            f"Received: {len(content)} bytes that begin {content[:4].hex(' ') or 'nowhere'}"
        )
    try:
        with tf.device("CPU"):
            if has_palette(content):
                image: Any = tf.constant(palette_pixels(content, where))
            else:
                image = tf.io.decode_image(content, channels=3, expand_animations=False)
            return np.asarray(image if size is None else _fitted(tf, image, size))
    except tf.errors.InvalidArgumentError as error:
        reason = _NODE.sub("", error.message.partition("\n")[0].partition(" [Op:")[0])
        raise DataError(f"{where} must be a whole image. Received: {reason}") from None


def _fitted(tf: Any, image: Any, size: tuple[int, int]) -> Any:
    height, width = image.shape[:2]
    if (height, width) == tuple(size):
        return image
    scale = min(height / size[0], width / size[1])
    rows, columns = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    top, left = (height - rows) // 2, (width - columns) // 2
    middle = image[top : top + rows, left : left + columns]
    scaled = tf.image.resize(middle, size, antialias=scale > 1)
    return tf.cast(tf.round(tf.clip_by_value(scaled, 0, 255)), tf.uint8)


def pixels_of_all(
    contents: Iterable[tuple[str, bytes]],
    count: int,
    shape: tuple[int, ...],
    size: tuple[int, int] | None,
) -> np.ndarray:
    """*count* images, shape (count, height, width, 3), uint8.

    Args:
        contents: pairs of an image's origin, for messages, and its bytes.
        shape: (height, width, 3) of every one.

    Raises:
        DataError: one is no image or, without *size*, of another shape.
    """
    result = np.empty((count, *shape), np.uint8)
    for place, (where, content) in enumerate(contents):
        image = pixels(content, size, where)
        if image.shape != shape:
            raise DataError(
                f"{where} must have the size of the first image, {shape[0]} x {shape[1]}. "
                f"Received: {image.shape[0]} x {image.shape[1]}; "
                "give size=(height, width) to scale all to"
            )
        result[place] = image
    return result
