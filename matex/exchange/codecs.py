"""Codecs of numbers in fewer bits for messages between hosts. Pure."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from matex.exchange.rounding import FORMATS, Format
from matex.exchange.route import BLOCK, Extent, Range

__all__ = ["CODECS", "FORMAT_NUMBERS", "Codec", "format_of"]

_LARGEST = np.float32(127)


class Codec(Protocol):
    """A format of float32 numbers, in which NaN and infinity need not be preserved."""

    number: int
    """Number of the format in ``numbers.h``."""

    def nbytes(self, count: int) -> int:
        """Number of bytes of *count* numbers."""

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Bytes (uint8) of the float32 vector *values*."""

    def decode(self, codes: np.ndarray, count: int) -> np.ndarray:
        """*count* float32 numbers from the bytes of :meth:`encode`."""


class _Bits16:
    def __init__(self, numbers: Format, number: int) -> None:
        self._numbers = numbers
        self.number = number

    def nbytes(self, count: int) -> int:
        return 2 * count

    def encode(self, values: np.ndarray) -> np.ndarray:
        return self._numbers.encode(values).view(np.uint8)

    def decode(self, codes: np.ndarray, count: int) -> np.ndarray:
        return self._numbers.decode(codes.view(np.uint16))


class _Bits8:
    """Integers from -127 to 127, with a scale for each block of 256.

    The scales, float32, come before the integers.
    """

    number = 3

    def nbytes(self, count: int) -> int:
        return 4 * -(-count // BLOCK) + count

    def encode(self, values: np.ndarray) -> np.ndarray:
        blocks = -(-values.size // BLOCK)
        padded = np.zeros((blocks, BLOCK), np.float32)
        padded.reshape(-1)[: values.size] = values
        scales = np.abs(padded).max(1) / _LARGEST
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(scales > 0, np.float32(1) / scales, np.float32(0))[:, None] * padded
            numbers = np.rint(np.nan_to_num(ratios, nan=0.0)).astype(np.int8)
        return np.concatenate(
            [scales.view(np.uint8), numbers.reshape(-1)[: values.size].view(np.uint8)]
        )

    def decode(self, codes: np.ndarray, count: int) -> np.ndarray:
        blocks = -(-count // BLOCK)
        scales = codes[: 4 * blocks].view(np.float32)
        numbers = codes[4 * blocks :].view(np.int8).astype(np.float32)
        return numbers * np.repeat(scales, BLOCK)[:count]


#: Codecs by their names in ``--compression``.
CODECS: dict[str, Codec] = {
    "fp16": _Bits16(FORMATS["fp16"], number=1),
    "bf16": _Bits16(FORMATS["bf16"], number=2),
    "int8": _Bits8(),
}

#: Numbers of the formats in numbers.h.
FORMAT_NUMBERS = {"none": 0, **{name: codec.number for name, codec in CODECS.items()}}


def format_of(bucket: Range, extent: Extent, compression: str) -> str:
    """Format of *bucket*. Integers without error feedback would lose small numbers for good."""
    if compression == "none" or bucket.start >= extent.body:
        return "none"
    return compression if bucket.stop <= extent.lasting else "bf16"
