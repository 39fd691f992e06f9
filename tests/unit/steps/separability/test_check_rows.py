"""Rows that a trial of a step computes at once and in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from matex.steps.separability.check_rows import telling_rows


class Labels:
    """Batch of numbers of classes."""

    uneven = ""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = tf.constant(numbers)
        self.span = (0, len(numbers))

    def rows(self, spans: Any) -> Any:
        return tf.concat([self._numbers[lo:hi] for lo, hi in spans], 0)

    def fingerprint(self, spans: Any) -> int:
        return 0


def parts_of(numbers: list[int]) -> list[list[int]]:
    rows = telling_rows(Labels(numbers))
    assert rows.count == max(2, min(8, len(numbers)))
    return [rows.cut(part).numpy().tolist() for part in rows.parts]


@pytest.mark.parametrize("count", [4, 5, 7, 8, 9, 32])
def test_both_parts_have_each_class(count: int) -> None:
    """A class of zeros, and another, in both parts, and more zeros in the first."""
    numbers = np.arange(count) % 2 + (np.arange(count) % 4 == 3)
    first, second = parts_of(numbers.tolist())
    assert 0 in first and 0 in second
    assert count == 4 or {*first} & {*second} - {0}
    assert first.count(0) / len(first) != second.count(0) / len(second)


@pytest.mark.parametrize(("numbers", "parts"), [([5], [[5], [5]]), ([5, 0], [[0], [5]])])
def test_all_rows_of_a_small_batch_are_checked(numbers: list[int], parts: list[list[int]]) -> None:
    """All rows of a small batch, and a single one twice."""
    assert parts_of(numbers) == parts
