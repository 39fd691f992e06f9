"""The rank that the others wait for."""

from __future__ import annotations

import pytest

from matex.top.rank_view import RankView, slowest


def rank(number: int, step_s: float | None, exchange_s: float | None) -> RankView:
    return RankView(
        rank=number, host="h", pid=1, started_s=0.0, step_s=step_s, exchange_s=exchange_s
    )


@pytest.mark.parametrize(
    ("times", "last"),
    [
        ([(0.1, 0.08), (0.1, 0.01), (0.1, 0.07)], 1),
        ([(0.1, 0.02), (0.1, 0.01), (0.1, 0.02)], None),  # all compute about as long
        ([(0.1, 0.01)], None),
        ([(0.1, 0.01), (None, None)], None),
        ([], None),
    ],
)
def test_the_slowest_is_named(
    times: list[tuple[float | None, float | None]], last: int | None
) -> None:
    found = slowest(rank(number, *pair) for number, pair in enumerate(times))
    assert (None if found is None else found.rank) == last


def test_what_a_rank_waits_is_what_its_exchange_takes_longer() -> None:
    assert rank(0, 0.1, 0.08).waits_s(0.01) == pytest.approx(0.07)
    assert rank(0, 0.1, 0.005).waits_s(0.01) == 0.0  # of another moment
    assert rank(0, None, None).waits_s(0.01) is None
