"""The heads of encoded pictures: kind, size, and the window to decode of each. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from matex.errors import DataError

__all__ = [
    "CutPlan",
    "Window",
    "check_same_size",
    "check_whole",
    "is_picture",
    "middle",
    "plan",
    "random_window",
    "size_in_head",
    "uniform",
]

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n"
_GIF = b"GIF8"
_BMP = b"BM"
_MARKS = (_JPEG, _PNG, _GIF, _BMP)

#: A JPEG is decoded at 1, 1/2, 1/4 or 1/8 of its size: plans 0 to 3. Then come other pictures.
RATIOS = (1, 2, 4, 8)
OTHER, OTHER_SMALLER = len(RATIOS), len(RATIOS) + 1

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # markers with the size behind
_MOST_ASPECT = 4 / 3  # of a random window's sides, beside the aspect wanted


class Window(NamedTuple):
    """A part of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


class CutPlan(NamedTuple):
    """Number of the decoding method of a picture, and the window in the decoded picture."""

    way: int
    window: Window


def is_picture(content: bytes) -> bool:
    """Whether *content* begins as an image does."""
    return content.startswith(_MARKS)


def size_in_head(content: bytes, where: str) -> tuple[int, int]:
    """Height and width from the header.

    Raises:
        DataError: no image, or truncated in its header.
    """
    if not is_picture(content):
        raise DataError(
            f"{where} must be a JPEG, PNG, GIF or BMP image. "
            f"Received: {len(content)} bytes that begin {content[:4].hex(' ') or 'nowhere'}"
        )
    size = _size_of(content)
    if size is None:
        raise DataError(
            f"{where} must be a whole image. Received: {len(content)} bytes, cut short in its head"
        )
    return size


def check_same_size(found: tuple[int, int], wanted: tuple[int, int], where: str) -> None:
    """Refuse an image whose size differs from the first, if no size was given.

    Raises:
        DataError: the sizes differ.
    """
    if found != wanted:
        raise DataError(
            f"{where} must have the size of the first image, {wanted[0]} x {wanted[1]}. "
            f"Received: {found[0]} x {found[1]}; give a size (height, width) to scale all to"
        )


def _size_of(content: bytes) -> tuple[int, int] | None:
    """Height and width from the header of *content*; None if it has none."""
    if content.startswith(_JPEG):
        return _jpeg_size(content)
    layout, place = None, 0
    if content.startswith(_PNG):
        layout, place = ">II", 16
    elif content.startswith(_GIF):
        layout, place = "<HH", 6
    elif content.startswith(_BMP):
        layout, place = "<ii", 18
    if layout is None or len(content) < place + struct.calcsize(layout):
        return None
    width, height = struct.unpack_from(layout, content, place)
    return (abs(height), width) if height and width > 0 else None


def check_whole(content: bytes) -> str | None:
    """Description of what is missing at the end of *content*, without decoding; None if whole."""
    if content.startswith(_JPEG) and content.rfind(b"\xff\xd9") < 0:
        return "a JPEG without its end"
    if content.startswith(_PNG) and content.rfind(b"IEND") < 0:
        return "a PNG without its end"
    return None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return (height, width) if height and width else None
        if marker == 0xFF:  # a byte to fill up
            place += 1
        else:
            place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return None


def middle(height: int, width: int, size: tuple[int, int]) -> Window:
    """The largest middle part of the shape of *size*."""
    scale = min(height / size[0], width / size[1])
    rows, columns = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    return Window((height - rows) // 2, (width - columns) // 2, rows, columns)


def random_window(
    height: int, width: int, size: tuple[int, int], least: float, numbers: Sequence[float]
) -> Window:
    """A part of any place, of an area from *least* of the whole to all, nearly of *size*'s shape.

    Args:
        numbers: four random numbers of [0, 1), for area, shape, and the two positions.
    """
    area, shape, down, right = numbers
    wanted = height * width * (least + (1 - least) * area)
    aspect = size[1] / size[0] * _MOST_ASPECT ** (2 * shape - 1)
    rows = min(height, max(1, round(math.sqrt(wanted / aspect))))
    columns = min(width, max(1, round(math.sqrt(wanted * aspect))))
    return Window(
        int(down * (height - rows + 1)), int(right * (width - columns + 1)), rows, columns
    )


def plan(content: bytes, window: Window, size: tuple[int, int]) -> CutPlan:
    """Plan for scaling *window* of a picture to *size*: a JPEG is decoded at the smallest scale.

    A JPEG then is scaled by less than 2 in the shorter of both ways, which bilinear numbers bear;
    others are averaged over the pixels that come together.
    """
    scale = min(window.height / size[0], window.width / size[1])
    if not content.startswith(_JPEG):
        return CutPlan(OTHER_SMALLER if scale > 1 else OTHER, window)
    way = max(k for k, ratio in enumerate(RATIOS) if ratio == 1 or ratio <= scale)
    ratio = RATIOS[way]
    smaller = Window(*(part // ratio for part in window))
    return CutPlan(
        way, smaller._replace(height=max(1, smaller.height), width=max(1, smaller.width))
    )


def uniform(seeds: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Random numbers of [0, 1), (rows, count), that depend on row and seed alone."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        state = (seeds.astype(np.uint64) << np.uint64(32)) * golden + rows.astype(np.uint64)
        mixed: Any = state[:, None] * np.uint64(64) + np.arange(count, dtype=np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
            mixed = mixed + golden
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)
