"""Pixels of JPEG, PNG, GIF and BMP images of equal size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from matex.data.picture_heads import check_same_size, is_picture, middle, plan, size_in_head
from matex.errors import DataError

__all__ = ["is_picture", "pixels", "pixels_of_all"]

_AT_ONCE = 256  # pictures that are decoded together


def pixels(content: bytes, size: tuple[int, int] | None, where: str) -> np.ndarray:
    """Pixels of one image: shape (height, width, 3), uint8.

    Args:
        size: (height, width); the largest middle part of that shape is cut out, and scaled.
        where: file and row, for messages.

    Raises:
        DataError: no image, or cut short.
    """
    shape = size_in_head(content, where) if size is None else size
    image: np.ndarray = _decoded([(where, content)], shape, size is None)[0]
    return image


def pixels_of_all(
    contents: Iterable[tuple[str, bytes]],
    count: int,
    shape: tuple[int, ...],
    size: tuple[int, int] | None,
) -> np.ndarray:
    """*count* images, shape (count, height, width, 3), uint8.

    Args:
        contents: pairs of an image's origin, for messages, and its bytes.
        shape: (height, width, 3) of each image.

    Raises:
        DataError: a content is no image or, without *size*, of another shape.
    """
    pending = iter(contents)
    if 0 < count <= _AT_ONCE:
        return _decoded(list(pending), (shape[0], shape[1]), size is None)
    result = np.empty((count, *shape), np.uint8)
    for lo in range(0, count, _AT_ONCE):
        some = list(itertools.islice(pending, _AT_ONCE))
        result[lo : lo + len(some)] = _decoded(some, (shape[0], shape[1]), size is None)
    return result


def _decoded(some: list[tuple[str, bytes]], size: tuple[int, int], as_it_is: bool) -> np.ndarray:
    from matex.data.streaming import decode_batch, without_palette

    contents, plans = [], []
    for where, content in some:
        height, width = size_in_head(content, where)
        if as_it_is:
            check_same_size((height, width), size, where)
        contents.append(without_palette(content, where))
        plans.append(plan(content, middle(height, width, size), size))
    try:
        return decode_batch(contents, plans, size)
    except ValueError as error:
        if len(some) == 1:
            raise DataError(f"{some[0][0]} must be a whole image. Received: {error}") from None
        for one in some:  # the one that is damaged is named
            _decoded([one], size, as_it_is)
        raise
