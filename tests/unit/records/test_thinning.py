"""Long rows are thinned: to little, evenly, and alike by all who count alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.records.thinning import Thinning, stride_for, thinned


@given(st.integers(1, 5000), st.integers(2, 40))
def test_all_multiples_of_the_last_stride_are_kept_and_few_others(count: int, limit: int) -> None:
    thinning = Thinning(limit)
    kept = [number for number in range(count) if thinning.keeps(number)]
    assert set(range(0, count, thinning.every)) <= set(kept)
    assert len(kept) <= limit * (1 + thinning.every.bit_length())
    assert kept[: min(limit, count)] == list(range(min(limit, count)))


def test_of_ten_million_some_thousands_are_kept() -> None:
    thinning = Thinning(4)
    kept = sum(thinning.keeps(number) for number in range(100_000))
    assert 4 * 10 < kept < 4 * 20


@given(st.sets(st.integers(0, 10_000)), st.integers(1, 50), st.sampled_from([1, 2, 8]))
def test_the_stride_is_the_smallest_power_of_two_that_does(
    numbers: set[int], most: int, least: int
) -> None:
    stride = stride_for(numbers, least=least, limit=most)
    count = sum(number % stride == 0 for number in numbers)
    before = sum(number % (stride // 2 or 1) == 0 for number in numbers)
    assert count <= most and stride >= least and stride & (stride - 1) == 0
    assert stride == least or before > most


@pytest.mark.parametrize(
    ("things", "most", "wanted"),
    [
        ([], 3, []),
        ([1, 2, 3], 3, [1, 2, 3]),
        ([1, 2, 3, 4], 3, [1, 3]),
        (list("abcdefg"), 2, ["a", "e"]),
    ],
)
def test_things_are_chosen_evenly(things: list[object], most: int, wanted: list[object]) -> None:
    assert thinned(things, limit=most) == wanted
