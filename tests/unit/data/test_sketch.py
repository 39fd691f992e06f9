"""Data that are told from others by a few numbers."""

from __future__ import annotations

import numpy as np

from matex.data.sketch import are_same_data, sketch

ROWS = np.random.default_rng(0).normal(size=(16, 5))
NAMES = np.array([f"row {number}" for number in range(16)])


def test_rounding_makes_no_other_data() -> None:
    known = sketch(100, [ROWS, NAMES])
    assert are_same_data(known, sketch(100, [ROWS.astype(np.float32), NAMES]))
    assert are_same_data(known, [])  # a stream, of which nothing is known


def test_other_values_rows_and_forms_do() -> None:
    known = sketch(100, [ROWS, NAMES])
    for other in (
        sketch(101, [ROWS, NAMES]),
        sketch(100, [ROWS * 1.01, NAMES]),
        sketch(100, [-ROWS, NAMES]),
        sketch(100, [ROWS, NAMES[::-1]]),
        sketch(100, [ROWS]),
    ):
        assert not are_same_data(known, other)


def test_nan_and_rows_without_values_are_data() -> None:
    known = sketch(2, [np.array([[np.nan], [1.0]]), np.zeros((2, 0))])
    assert are_same_data(known, sketch(2, [np.array([[np.nan], [1.0]]), np.zeros((2, 0))]))
