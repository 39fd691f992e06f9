"""The interval between two checkpoints, against the exact optimum and a direct solution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import daly_s, mean_time_to_total_loss_s, young_s

seconds = st.floats(1e-3, 1e6)


def expected_run_time(interval_s: float, cost_s: float, mean_time_s: float) -> float:
    """Expected time for a second of work, with failures at any time (Daly 2006, equation 13)."""
    return mean_time_s * math.expm1((interval_s + cost_s) / mean_time_s) / interval_s


@given(st.floats(1e-4, 0.5), st.floats(10, 1e7))
def test_no_other_interval_is_noticeably_better(ratio: float, mean_time_s: float) -> None:
    cost_s = ratio * mean_time_s
    chosen = expected_run_time(daly_s(cost_s, mean_time_s), cost_s, mean_time_s)
    for factor in (0.5, 0.8, 0.9, 1.1, 1.25, 2):
        other = factor * daly_s(cost_s, mean_time_s)
        assert chosen <= expected_run_time(other, cost_s, mean_time_s) * 1.001


@given(seconds, seconds)
def test_daly_refines_young_where_failures_are_rare(cost_s: float, mean_time_s: float) -> None:
    interval = daly_s(cost_s, mean_time_s)
    assert 0 < interval <= max(mean_time_s, 1.5 * young_s(cost_s, mean_time_s))
    if cost_s < 1e-4 * mean_time_s:
        assert interval == pytest.approx(young_s(cost_s, mean_time_s), rel=0.01)


def test_a_checkpoint_that_costs_more_than_a_failure_is_made_once_a_failure() -> None:
    assert daly_s(20.0, 10.0) == 10.0
    assert daly_s(0.0, 10.0) == young_s(0.0, 10.0) == 0.0


@pytest.mark.parametrize(("members", "needed"), [(1, 1), (4, 1), (4, 3), (12, 9)])
def test_the_mean_time_is_that_of_the_birth_and_death_process(members: int, needed: int) -> None:
    """Solved as linear equations: t_k = 1/(f_k + r_k) + (f_k t_k+1 + r_k t_k-1)/(f_k + r_k)."""
    failure, repair = 1e-3, 5e-3
    states = members - needed + 1
    matrix, right = np.zeros((states, states)), np.ones(states)
    for k in range(states):
        f, r = (members - k) * failure, k * repair
        matrix[k, k] = f + r
        if k + 1 < states:
            matrix[k, k + 1] = -f
        if k:
            matrix[k, k - 1] = -r
    exact = np.linalg.solve(matrix, right)[0]
    found = mean_time_to_total_loss_s(
        members, needed=needed, failure_rate=failure, repair_rate=repair, common_rate=0
    )
    assert found == pytest.approx(exact, rel=1e-9)


def test_what_takes_all_at_once_bounds_the_mean_time() -> None:
    week = 7 * 86_400.0
    many = mean_time_to_total_loss_s(1000, failure_rate=1e-9, repair_rate=1.0)
    assert many == pytest.approx(week, rel=1e-6)
    assert mean_time_to_total_loss_s(4, failure_rate=0.0) == week
    every = mean_time_to_total_loss_s(4, needed=4, failure_rate=1 / week, common_rate=0)
    assert every == pytest.approx(week / 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: daly_s(-1, 10), "cost_s=-1, mean_time_s=10"),
        (lambda: young_s(1, 0), "cost_s=1, mean_time_s=0"),
        (lambda: mean_time_to_total_loss_s(2, needed=3, failure_rate=1), "needed=3"),
        (lambda: mean_time_to_total_loss_s(2, failure_rate=-1), "failure_rate=-1"),
        (lambda: mean_time_to_total_loss_s(2, failure_rate=0, common_rate=0), "can happen"),
    ],
)
def test_what_makes_no_sense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
