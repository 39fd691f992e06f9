"""The time that ranks may be silent, and the ranks that are slow."""

from __future__ import annotations

import pytest

from matex.fitting.stragglers import Stragglers
from matex.run.timeouts import patience, step_limit


@pytest.mark.parametrize(
    ("step_s", "limit_s"), [([0.005], 60), ([1.0, 2.0, 9.0], 200), ([30.0], 600)]
)
def test_the_limit_of_a_step_follows_the_measured_ones(step_s: list[float], limit_s: float) -> None:
    assert step_limit(step_s) == limit_s


def test_no_two_ranks_lose_patience_together_and_the_leader_is_last() -> None:
    for size in range(1, 65):
        limits = [patience(place, size) for place in range(size)]
        assert limits == sorted(set(limits), reverse=True)
        assert 3 <= limits[-1] <= limits[0] <= 6


def test_a_slow_rank_is_told_once_when_it_has_been_slow_for_long() -> None:
    stragglers = Stragglers()
    ranks, busy = (0, 1, 3), [100, 110, 330]
    found = [stragglers.detect(ranks, busy) for _ in range(6)]
    assert [list(slow) for slow in found] == [[], [], [3], [], [], []]
    assert abs(found[2][3] - 330 / 105) < 1e-9


def test_one_that_was_slow_for_a_moment_is_not() -> None:
    stragglers = Stragglers()
    found = [
        stragglers.detect((0, 1), busy)
        for busy in ([100, 300], [100, 300], [100, 190], [100, 300], [100, 300])
    ]
    assert not any(found)
    assert stragglers.detect((0, 1), [100, 300]) == {1: 3.0}


def test_alone_nobody_is_slow() -> None:
    stragglers = Stragglers()
    assert not any(stragglers.detect((2,), [500]) for _ in range(5))
    assert not any(stragglers.detect((0, 1, 2), [0, 0, 0]) for _ in range(5))
