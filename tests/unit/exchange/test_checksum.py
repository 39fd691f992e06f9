"""Checksums tell arrays apart by one bit, by order and by size."""

from __future__ import annotations

import numpy as np
import pytest

from matex.exchange.checksum import checksum

LONG = np.random.default_rng(1).normal(size=200_001).astype("float32")


def changed(place: int) -> np.ndarray:
    other = LONG.copy()
    other.view(np.uint32)[place] ^= 1
    return other


def test_equal_arrays_have_one() -> None:
    assert checksum([LONG, LONG[:3]]) == checksum([LONG.copy(), LONG[:3].reshape(3, 1)])
    assert -(2**63) <= checksum([LONG]) < 2**63


@pytest.mark.parametrize("place", [0, 1, 131_071, 131_072, 199_999, 200_000])
def test_one_bit_changes_it(place: int) -> None:
    assert checksum([changed(place)]) != checksum([LONG])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([LONG, LONG[:5]], [LONG[:5], LONG]),
        ([LONG[:7], LONG[7:]], [LONG]),
        ([np.zeros(3)], [np.zeros(4)]),
        ([np.zeros(0)], []),
        ([LONG[::-1]], [LONG]),
        ([LONG[[1, 0, *range(2, 200_001)]]], [LONG]),
    ],
)
def test_order_and_sizes_change_it(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert checksum(one) != checksum(other)
