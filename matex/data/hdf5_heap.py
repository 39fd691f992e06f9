"""The global heaps of an HDF5 file, looked through before libhdf5 does.

A heap is a row of objects, each of which says how long it is. From one without a length libhdf5
1.14.6 looks for the next one without end, within a call that cannot be ended: so a file that holds
such a heap is not opened. Virtual data sets and texts of varying length lie in heaps.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["endless_heap"]

_HEAD = struct.Struct("<4sB3sQ")  # mark, version, nothing, length of all with the head
_OBJECT = struct.Struct("<HHIQ")  # number, references, nothing, length without the head
_MARK = b"GCOL\x01"

# Bytes searched at both ends of a longer file: heaps are near the metadata.
_LOOKED_AT = 64 << 20


def endless_heap(path: Path) -> int | None:
    """First byte of a heap in *path* whose list of objects is endless; None if there is none.

    Heaps whose lengths are not of 8 bytes, as all common writers have them, are not looked at.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for at in _heaps(content):
                if not _ends(content, at):
                    return at
    return None


def _heaps(content: mmap.mmap) -> Iterator[int]:
    parts = [(0, len(content))]
    if len(content) > 2 * _LOOKED_AT:
        parts = [(0, _LOOKED_AT), (len(content) - _LOOKED_AT, len(content))]
    for lo, hi in parts:
        at = content.find(_MARK, lo, hi)
        while at >= 0:
            yield at
            at = content.find(_MARK, at + 1, hi)


def _ends(content: mmap.mmap, at: int) -> bool:
    """Whether the list of objects of the heap at byte *at* ends."""
    if at + _HEAD.size > len(content):
        return True
    *_, length = _HEAD.unpack_from(content, at)
    end = at + length
    if length < _HEAD.size or end > len(content):
        return True  # libhdf5 reads no such heap
    at += _HEAD.size
    while at + _OBJECT.size <= end:
        number, _, _, size = _OBJECT.unpack_from(content, at)
        step = _OBJECT.size + -(-size // 8) * 8 if number else size
        if not 0 < step <= end - at:
            return False
        at += step
    return True
