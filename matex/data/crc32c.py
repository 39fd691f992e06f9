"""CRC-32C (Castagnoli), the checksum of TFRecord's records, by NumPy.

Of a byte string b_0 .. b_(n-1) with reflected polynomial P = 0x82F63B78: the register starts at
2^32 - 1, each byte makes ``r = T[(r ^ b) & 255] ^ (r >> 8)``, and the result is inverted. The
register is linear in what goes in, so that pieces of a long string are summed side by side and
then joined: appending k zero bytes to a register is a linear map Z_k, and

    register(a + b) = Z_len(b)(register(a)) ^ register(b)
"""

from __future__ import annotations

import functools

import numpy as np

__all__ = ["crc32c", "masked_crc32c"]

_POLYNOMIAL = 0x82F63B78
_LANE = 64  # bytes that one lane sums by itself
_SHORT = 2048  # up to here a plain loop is quicker


@functools.cache
def _table() -> np.ndarray:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, values >> 1 ^ np.uint32(_POLYNOMIAL), values >> 1)
    return values.astype(np.uint32)


@functools.cache
def _bytewise() -> tuple[int, ...]:
    return tuple(_table().tolist())


@functools.cache
def _zeros(doublings: int) -> np.ndarray:
    """Z_k for k = _LANE * 2^doublings as four tables of 256, one for each byte of a register."""
    if doublings:
        half = _zeros(doublings - 1)
        return _apply(half, half)
    registers = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    for _ in range(_LANE):
        registers = _table()[registers & 255] ^ registers >> 8
    return registers


def _apply(tables: np.ndarray, registers: np.ndarray) -> np.ndarray:
    shifts = (0, 8, 16, 24)
    parts = [tables[i][registers >> shift & 255] for i, shift in enumerate(shifts)]
    return np.asarray(parts[0] ^ parts[1] ^ parts[2] ^ parts[3])


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of *data*; ``crc32c(b"123456789") == 0xE3069283``."""
    if len(data) <= _SHORT:
        table, register = _bytewise(), 0xFFFFFFFF
        for byte in bytes(data):
            register = table[(register ^ byte) & 255] ^ register >> 8
        return register ^ 0xFFFFFFFF
    # The starting value is the first four bytes inverted; zeros in front of those change nothing.
    lanes = 1 << (-(-len(data) // _LANE) - 1).bit_length()
    padded = np.zeros(lanes * _LANE, np.uint8)
    padded[-len(data) :] = np.frombuffer(data, np.uint8)
    start = lanes * _LANE - len(data)
    padded[start : start + 4] ^= np.uint8(255)
    columns = np.ascontiguousarray(padded.reshape(lanes, _LANE).T)
    registers = np.zeros(lanes, np.uint32)
    for column in columns:
        registers = _table()[(registers ^ column) & 255] ^ registers >> 8
    doublings = 0
    while len(registers) > 1:
        registers = _apply(_zeros(doublings), registers[0::2]) ^ registers[1::2]
        doublings += 1
    return int(registers[0]) ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | memoryview) -> int:
    """Checksum as stored in TFRecord: rotated right by 15 bits, plus a constant, modulo 2^32."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
