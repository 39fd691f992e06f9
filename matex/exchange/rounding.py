"""16-bit formats of 32-bit numbers: encoding and decoding. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["FORMATS", "Format"]

_LARGEST = np.float32(65504)


class Format(NamedTuple):
    encode: Callable[[np.ndarray], np.ndarray]
    """float32 to the uint16 of the nearest number; NaN stays NaN."""
    decode: Callable[[np.ndarray], np.ndarray]
    """uint16 to float32, without loss."""


def _to_half(values: np.ndarray) -> np.ndarray:
    # A number that is too large is clipped; error feedback sends the rest later.
    cut = np.where(np.isinf(values), values, np.clip(values, -_LARGEST, _LARGEST))
    return cut.astype(np.float16).view(np.uint16)


def _from_half(codes: np.ndarray) -> np.ndarray:
    return codes.view(np.float16).astype(np.float32)


def _to_brain(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    codes = ((bits + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)
    codes[np.isnan(values)] = 0x7FC0
    return codes


def _from_brain(codes: np.ndarray) -> np.ndarray:
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


FORMATS = {"fp16": Format(_to_half, _from_half), "bf16": Format(_to_brain, _from_brain)}
