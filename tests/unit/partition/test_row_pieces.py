"""Rows that are missing: added to those at hand, or all anew where some are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.partition.row_pieces import MissingRows, missing_rows
from matex.partition.spans import Span, assigned, size

RANKS = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("wanted", "have", "missing"),
    [
        ([[(0, 4)], []], [[], []], MissingRows([[(0, 4)], []], False)),
        ([[(0, 4), (8, 9)]], [[(0, 4)]], MissingRows([[(8, 9)]], False)),
        ([[(0, 4)], [(4, 6)]], [[(0, 4)], [(4, 6)]], MissingRows([[], []], False)),
        ([[(0, 4)], [(4, 6)]], [[(0, 4)], [(4, 7)]], MissingRows([[(0, 4)], [(4, 6)]], True)),
    ],
)
def test_pieces_are_added_or_all_is_computed_anew(
    wanted: list[list[Span]], have: list[list[Span]], missing: MissingRows
) -> None:
    assert missing_rows(wanted, have) == missing


@given(st.integers(0, 40), st.permutations(RANKS), st.integers(1, 3))
def test_after_any_deaths_each_rank_has_its_rows(rows: int, order: list[int], deaths: int) -> None:
    """The last of *order* lives; what it has plus what is missing are its rows, each once."""
    me, have = order[-1], [assigned((0, rows), RANKS, (), order[-1])]
    for count in range(1, deaths + 1):
        wanted = [assigned((0, rows), RANKS, order[:count], me)]
        spans, anew = missing_rows(wanted, have)
        held = 0 if anew else size(have[0])
        assert held + size(spans[0]) == size(wanted[0])
        have = wanted
