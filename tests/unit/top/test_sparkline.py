"""Curves as text."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from matex.top.sparkline import BLOCKS, PLAIN, sparkline

NUMBERS = st.lists(st.floats())


def test_a_curve_is_drawn_between_its_least_and_greatest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 10) == BLOCKS
    assert sparkline([7, 0, 7], 10, signs=PLAIN) == "#_#"
    assert sparkline([2.5, 2.5], 10) == "▁▁"
    assert sparkline([1, math.nan, 2], 10) == "▁ █"
    assert sparkline([], 10) == ""


def test_more_values_than_columns_are_means() -> None:
    assert sparkline([0, 0, 7, 7, 3, 4], 3) == "▁█▅"
    assert sparkline([math.inf, -math.inf, 1, 1], 2) == " ▁"


@given(NUMBERS, st.integers(min_value=1, max_value=20))
def test_any_values_make_a_curve_that_fits(values: list[float], width: int) -> None:
    drawn = sparkline(values, width)
    assert len(drawn) == min(width, len(values))
    assert set(drawn) <= {*BLOCKS, " "}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_the_least_and_the_greatest_are_where_they_are(values: list[float]) -> None:
    drawn = sparkline(values, len(values))
    signs = [BLOCKS.index(sign) for sign in drawn]
    assert signs[values.index(min(values))] == 0
    assert signs[values.index(max(values))] == max(signs)
