"""Sums whose bits no order of adding changes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from matex.exchange.exact_sums import MOST_ADDENDS, add_rounded, anchors, tops

STARTS = [0, 3, 4]
LENGTH = 8


def addends(dtype: type[np.floating], most: float) -> st.SearchStrategy[np.ndarray]:
    numbers = st.floats(-most, most, width=32 if dtype is np.float32 else 64)
    return arrays.arrays(
        dtype, st.tuples(st.integers(1, 9), st.just(LENGTH)), elements=numbers
    )


def summed(rows: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """The sum of *rows*, of which each rank holds a group; the ranks' sums in their order."""
    found = anchors(np.stack([tops(row, STARTS) for row in rows]))
    of_ranks = []
    for group in groups:
        total = np.zeros(LENGTH)
        for number in group:
            add_rounded(total, rows[number], STARTS, found)
        of_ranks.append(total)
    return np.add.reduce(of_ranks)


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 2.0**100), (np.float64, 1e200)])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_order_and_no_grouping_changes_a_bit(
    dtype: type[np.floating], most: float, data: st.DataObject
) -> None:
    rows = data.draw(addends(dtype, most))
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    groups = [
        list(order[lo:hi]) for lo, hi in itertools.pairwise([0, *cuts, len(rows)])
    ]
    assert summed(rows, groups).tobytes() == summed(rows, [list(range(len(rows)))]).tobytes()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_sum_is_that_of_the_numbers_but_for_2_to_the_minus_40_of_the_largest(
    data: st.DataObject,
) -> None:
    rows = data.draw(addends(np.float32, 2.0**100))
    got = summed(rows, [list(range(len(rows)))])
    for start, end in itertools.pairwise([*STARTS, LENGTH]):
        largest = max(abs(Fraction(float(x))) for x in rows[:, start:end].flat)
        for place in range(start, end):
            exact = sum(Fraction(float(x)) for x in rows[:, place])
            assert abs(Fraction(float(got[place])) - exact) <= largest / 2**40


def test_numbers_of_like_size_lose_nothing() -> None:
    rows = np.random.default_rng(3).uniform(1, 2, (64, LENGTH)).astype(np.float32)
    exact = [math.fsum(column) for column in rows.astype(float).T]
    assert summed(rows, [list(range(64))]).tolist() == exact


def test_the_top_of_a_stretch_is_its_largest_magnitude() -> None:
    vector = np.array([1, -3, 2, 0, 5, -5, 4, -6], np.float32)
    assert tops(vector, STARTS).tolist() == [3, 0, 6]


def test_what_is_not_finite_spoils_its_own_stretch_alone() -> None:
    rows = np.ones((2, LENGTH), np.float32)
    rows[0, 3], rows[1, 5] = np.nan, np.inf
    got = summed(rows, [[0], [1]])
    assert np.isfinite(got).tolist() == [True] * 3 + [False] * 5


def test_too_many_addends_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 4096 addends"):
        anchors(np.zeros((MOST_ADDENDS + 1, 2)))
