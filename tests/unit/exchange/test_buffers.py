"""Copies into the buffers of an exchange, which tell whether all values are finite."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from matex.exchange.buffers import copied

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
