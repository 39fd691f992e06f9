"""Ways in which the content of a file is damaged, and which of them a checksum must tell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Damage", "damage", "first_difference", "strange_rows"]

_HEAD = 64  # bytes at the beginning that a damaged header changes some of
_FIRST_PARTS = (_HEAD, 1024, 1 << 20)
_APPENDED = 600
_MOST_BITS = 8

Rows = Mapping[str, np.ndarray]


class Damage(NamedTuple):
    """A damaged file.

    Attributes:
        words: description of the damage, for the reader who looks for a cause.
        content: all bytes of the damaged file.
        places: offsets of the bytes that differ, int64, or None where bytes moved or the
            length is another.
    """

    words: str
    content: bytes
    places: np.ndarray | None


def damage(content: bytes, dice: np.random.Generator) -> Damage:
    """Damage *content*, which has at least one byte, in one of the ways at random."""
    way = _WAYS[int(dice.integers(len(_WAYS)))]
    words, after = way(content, dice)
    if len(after) != len(content):
        return Damage(words, after, None)
    before, now = (np.frombuffer(one, np.uint8) for one in (content, after))
    return Damage(words, after, np.flatnonzero(before != now))


def _cut(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    left = int(dice.integers(len(content)))
    return f"cut after {left} of {len(content)} bytes", content[:left]


def _bits(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    after = bytearray(content)
    places = dice.integers(8 * len(content), size=int(dice.integers(1, _MOST_BITS + 1)))
    for place in places.tolist():
        after[place // 8] ^= 1 << place % 8
    return f"bits {places.tolist()} flipped", bytes(after)


def _block(content: bytes, dice: np.random.Generator) -> tuple[int, int]:
    """A part [lo, hi) of at least one byte; short ones are as likely as long ones."""
    size = max(1, int(len(content) ** dice.random()))
    lo = int(dice.integers(len(content) - size + 1))
    return lo, lo + size


def _zeros(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    lo, hi = _block(content, dice)
    return f"bytes {lo} to {hi - 1} zeroed", content[:lo] + bytes(hi - lo) + content[hi:]


def _repeated(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    lo, hi = _block(content, dice)
    return f"bytes {lo} to {hi - 1} repeated", content[:hi] + content[lo:]


def _taken_out(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    lo, hi = _block(content, dice)
    return f"bytes {lo} to {hi - 1} taken out", content[:lo] + content[hi:]


def _appended(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    size = int(dice.integers(1, _APPENDED))
    return f"{size} bytes appended", content + dice.bytes(size)


def _header(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    after = bytearray(content)
    places = dice.integers(min(_HEAD, len(content)), size=int(dice.integers(1, 5)))
    for place in places.tolist():
        after[place] = int(dice.integers(256))
    return f"header bytes {places.tolist()} changed", bytes(after)


def _extreme(content: bytes, dice: np.random.Generator) -> tuple[str, bytes]:
    """A number of 1 to 8 bytes in the first part, which may be a length or an offset."""
    size = min(len(content), 1 << int(dice.integers(4)))
    most = min(len(content), int(dice.choice(_FIRST_PARTS))) - size
    place = int(dice.integers(max(0, most) + 1))
    number = dice.choice([bytes(size), b"\xff" * size, b"\x7f" + b"\xff" * (size - 1),
                          b"\xff" * (size - 1) + b"\x7f", b"\x40" + bytes(size - 1),
                          bytes(size - 1) + b"\x40", dice.bytes(size)])  # fmt: skip
    number = number.ljust(size, b"\0")  # NumPy's bytes lose zeros at their end
    after = content[:place] + number + content[place + size :]
    return f"bytes {place} to {place + size - 1} set to {number.hex()}", after


_WAYS: Sequence[Callable[[bytes, np.random.Generator], tuple[str, bytes]]] = (
    _cut, _bits, _zeros, _repeated, _taken_out, _appended, _header, _extreme,
)  # fmt: skip


def first_difference(sound: Rows, found: Rows, notes: Mapping[str, str]) -> str:
    """The first difference of *found* from the *sound* rows, in words; "" where no member differs.

    A member that is missing is no difference where one of the *notes* is about it.
    """
    for name, rows in sound.items():
        if name not in found:
            if name not in notes:
                return f"{name} is neither among the members nor the notes"
        elif (found[name].shape, found[name].dtype) != (rows.shape, rows.dtype):
            return f"{name} has {rows.shape} {rows.dtype}. Received: {found[name].shape}"
        elif found[name].tobytes() != rows.tobytes():
            return f"{name} has other numbers than the sound file"
    return ""


def strange_rows(sound: Rows, found: Rows) -> str:
    """The member of *found* that has a row which the *sound* file has not; "" where none has.

    It is the rule where each record has a checksum, but the file has none: whole records may be
    missing or be there twice.
    """
    for name in sound.keys() & found.keys():
        known = {row.tobytes() for row in sound[name]}
        strange = [place for place, row in enumerate(found[name]) if row.tobytes() not in known]
        if strange:
            return f"{name} has a row {strange[0]} that the sound file has not"
    return ""
