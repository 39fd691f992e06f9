"""Widths of the columns beside the values."""

from __future__ import annotations

import pytest

from matex.top.curve_table import column_widths


@pytest.mark.parametrize(
    ("name", "curve", "width", "wanted"),
    [
        (74, 40, None, (74, 40)),
        (10, 40, 80, (10, 40)),
        (10, 40, 50, (10, 30)),  # the curve is shorter
        (10, 3, 24, (10, 3)),
        (74, 40, 80, (62, 8)),  # then the name is cut
        (74, 40, 24, (16, 0)),  # a curve that leaves no name is none
        (74, 40, 5, (1, 0)),
    ],
)
def test_curves_become_shorter_before_names(
    name: int, curve: int, width: int | None, wanted: tuple[int, int]
) -> None:
    assert column_widths(name, 6, curve, width) == wanted
