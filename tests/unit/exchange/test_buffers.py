"""Copies into the buffers of an exchange, which tell whether all values are finite."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from matex.exchange.buffers import aligned, copied, owned
from matex.exchange.layout import ALIGNMENT

SIZE = 40_000  # more than a block


@pytest.mark.parametrize(
    ("value", "finite"), [(1.0, True), (3e38, True), (np.inf, False), (np.nan, False)]
)
def test_what_is_finite_without_a_warning(value: float, finite: bool) -> None:
    """Squares of large values overflow, and the values do not."""
    source, target = np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32)
    source[SIZE - 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copied(target, source) is finite
    np.testing.assert_array_equal(target, source)


def test_tensorflow_gets_memory_of_its_own_that_it_need_not_copy() -> None:
    vector = aligned(11, np.dtype(np.float64))
    assert not vector.any()
    parts = [vector[:6].reshape(2, 3), vector[6:6], np.ones((), np.float32)]
    copies = owned(parts)
    vector[:] = 5
    for copy, part in zip(copies, parts, strict=True):
        assert (copy.shape, copy.dtype) == (part.shape, part.dtype)
        assert copy.size == 0 or copy.ctypes.data % ALIGNMENT == 0
        assert not np.shares_memory(copy, vector)
    assert (copies[0].max(), copies[2]) == (0, 1)
