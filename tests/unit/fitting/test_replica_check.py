"""The majority when replicas differ, and the interval of comparisons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.fitting.replica_check import Measured, interval, majority


@pytest.mark.parametrize(
    ("hashes", "good"),
    [
        ([5, 5, 5], (0, 2, 7)),
        ([5, 9, 5], (0, 7)),
        ([9, 5, 5], (2, 7)),
        ([1, 2, 3], ()),
    ],
)
def test_more_than_half_are_right(hashes: list[int], good: tuple[int, ...]) -> None:
    assert majority((0, 2, 7), hashes) == good


def test_two_against_two_is_no_majority() -> None:
    assert majority((0, 1, 2, 3), [5, 5, 9, 9]) == ()
    assert majority((0, 1), [5, 9]) == ()
    assert majority((0,), [5]) == (0,)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_a_majority_is_one(hashes: list[int]) -> None:
    ranks = tuple(range(len(hashes)))
    good = majority(ranks, hashes)
    assert len({hashes[rank] for rank in good}) <= 1
    best = max(hashes.count(h) for h in hashes)
    assert len(good) == (best if 2 * best > len(hashes) else 0)


def test_the_slowest_check_and_the_quickest_step_count() -> None:
    rows = [
        Measured(check_us=1000, step_us=6000, busy_us=0),
        Measured(check_us=2000, step_us=5000, busy_us=0),
    ]
    assert interval(rows) == 200  # 2 ms in a second
    assert interval([Measured(check_us=0, step_us=5000, busy_us=0)]) == 16
    assert interval([Measured(check_us=10**9, step_us=0, busy_us=0)]) == 100_000
