"""BMP images with a palette, whose pixels TensorFlow would take for grey values."""

from __future__ import annotations

import struct

import numpy as np

from matex.errors import DataError

__all__ = ["has_palette", "palette_pixels"]

_HEAD = 14  # bytes of the file's header, before that of the image
_LEAST = _HEAD + 40


def has_palette(content: bytes) -> bool:
    """Whether *content* is a BMP of at most 8 bits a pixel."""
    if not content.startswith(b"BM") or len(content) < _LEAST:
        return False
    return int(struct.unpack_from("<H", content, 28)[0]) <= 8


def palette_pixels(content: bytes, where: str) -> np.ndarray:
    """The colours of the image, shape (height, width, 3), uint8.

    Raises:
        DataError: the image is compressed, truncated, or lacks colours that it uses.
    """
    start, size, width, height, _, bits, packing = struct.unpack_from("<IIiiHHI", content, 10)
    (colours,) = struct.unpack_from("<I", content, 46)
    if packing:
        raise DataError(
            f"{where} must be a BMP that is not packed. Received: one packed by RLE; save it as PNG"
        )
    if bits not in (1, 2, 4, 8) or width < 1 or not height:
        raise DataError(
            f"{where} must be a whole BMP. Received: {width} x {height} pixels of {bits} bits"
        )
    colours = min(colours or 1 << bits, 1 << bits)
    line = (width * bits + 31) // 32 * 4  # rows begin at multiples of four bytes
    if len(content) < max(start + line * abs(height), _HEAD + size + 4 * colours):
        raise DataError(f"{where} must be a whole BMP. Received: {len(content)} bytes, cut short")
    palette = np.frombuffer(content, np.uint8, 4 * colours, _HEAD + size).reshape(-1, 4)
    packed = np.frombuffer(content, np.uint8, line * abs(height), start).reshape(-1, line)
    single = np.unpackbits(packed, axis=1).reshape(len(packed), -1, bits)
    numbers = single @ (1 << np.arange(bits)[::-1])
    numbers = numbers[:, :width]
    if int(numbers.max()) >= colours:
        raise DataError(
            f"{where} must have the colours that it uses. Received: number {numbers.max()} of "
            f"{colours}"
        )
    rows = numbers if height < 0 else numbers[::-1]
    result: np.ndarray = np.ascontiguousarray(palette[rows][..., 2::-1])
    return result
