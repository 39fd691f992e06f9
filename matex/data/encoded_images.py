"""Rows of images that are stored encoded, each opened and decoded when it is read."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np

from matex.data.pictures import pixels, pixels_of_all
from matex.data.rows import Rows
from matex.errors import InputError

__all__ = ["Contents", "EncodedImages", "InMemory", "check_size"]


class Contents(abc.ABC):
    """Encoded images by number. Local; read by several threads at a time."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def read(self, row: int) -> bytes:
        """The image of *row*, encoded.

        Raises:
            DataError: the image cannot be read; the message names file and row.
        """

    @abc.abstractmethod
    def where(self, row: int) -> str:
        """The origin of *row*, for messages."""


class InMemory(Contents):
    """Encoded images of a sequence, such as a list."""

    def __init__(self, images: Sequence[bytes]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def read(self, row: int) -> bytes:
        return self._images[row]

    def where(self, row: int) -> str:
        return f"image {row}"


class EncodedImages(Rows):
    """Images stored as JPEG, PNG, GIF or BMP: ``uint8`` pixels, decoded when rows are asked for.

    Args:
        images: sequence of encoded images, such as a list; an item is read on demand.
        size: (height, width) to cut and scale to; without it all must have the size of the first.

    Raises:
        DataError: the first is no image.
        InputError: there is no image, or *size* is wrong.

    Example:
        >>> import tensorflow as tf
        >>> png = tf.io.encode_png(np.full((4, 6, 3), 7, np.uint8)).numpy()
        >>> images = data.EncodedImages([png, png], size=(2, 2))
        >>> images.shape, images[1].max()
        ((2, 2, 2, 3), np.uint8(7))
    """

    is_encoded = True

    def __init__(
        self, images: Contents | Sequence[bytes], size: tuple[int, int] | None = None
    ) -> None:
        check_size(size)
        self._contents = images if isinstance(images, Contents) else InMemory(images)
        self.cut_to = size
        if not len(self._contents):
            raise InputError("images must be at least one. Received: none")
        where, content = self.encoded(0)
        self.shape = (len(self._contents), *pixels(content, size, where).shape)
        self.dtype = np.dtype(np.uint8)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Decode rows; see :meth:`Rows.rows`."""
        contents = (self.encoded(row) for row in indices.tolist())
        return pixels_of_all(contents, len(indices), self.shape[1:], self.cut_to)

    def encoded(self, row: int) -> tuple[str, bytes]:
        """Read an image as it is stored; see :meth:`Rows.encoded`."""
        return self._contents.where(row), self._contents.read(row)


def check_size(size: tuple[int, int] | None) -> None:
    """Refuse a *size* that is no (height, width).

    Raises:
        InputError: *size* is no (height, width).
    """
    if size is None:
        return
    is_pair = isinstance(size, tuple | list) and len(size) == 2
    if not is_pair or not all(isinstance(side, int | np.integer) and side > 0 for side in size):
        raise InputError(f"size must be (height, width), both at least 1. Received: {size!r}")
