"""Columns of the ranks for which a terminal has room."""

from __future__ import annotations

import pytest

from matex.top.rank_table import columns

WIDTHS = {
    "rank": 4, "host": 30, "state": 8, "step": 6, "step ms": 7, "exchange ms": 11, "waits ms": 8,
    "memory": 6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("width", "out", "host"),
    [
        (None, [], 30),
        (94, [], 30),
        (80, [], 16),  # the names of hosts are cut first
        (75, ["waits ms"], 21),
        (60, ["waits ms", "exchange ms"], 19),
        (50, ["waits ms", "exchange ms", "memory"], 17),
        (40, ["waits ms", "exchange ms", "memory", "step ms"], 16),
        (30, ["waits ms", "exchange ms", "memory", "step ms", "step"], 14),
        (10, ["waits ms", "exchange ms", "memory", "step ms", "step"], 4),
    ],
)
def test_columns_are_left_out_whole(width: int | None, out: list[str], host: int) -> None:
    assert columns(WIDTHS, width) == ([name for name in WIDTHS if name not in out], host)
