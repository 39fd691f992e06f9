"""EASGD, Downpour, DASO, shares and rates beside plain code of the published equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.config.lr_scaling import rate_factor
from matex.partition import balance
from matex.strategies.centre import versioned_message
from matex.strategies.rules import daso, downpour, elastic, nodes, turns
from matex.strategies.rules.centre import Push
from tests.eamsgd import nesterov


def workers(count: int, size: int = 6) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=size) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_synchronous_elastic_averaging_is_that_of_the_paper(count: int) -> None:
    points, centre = workers(count), np.full(6, 0.3)
    alpha = elastic.force(1 / count)
    wanted_centre = centre + sum(alpha * (x - centre) for x in points)
    mean = np.mean(points, axis=0)
    for x in points:
        got, got_centre = elastic.pull_together(x, mean, centre, share=1 / count)
        np.testing.assert_allclose(got, x - alpha * (x - centre), atol=1e-15)
        np.testing.assert_allclose(got_centre, wanted_centre, atol=1e-14)


def test_elastic_averaging_converges_with_workers_lost_and_one_left() -> None:
    points, centre = workers(4), np.zeros(6)
    for step in range(200):
        if step in (30, 60, 90):
            points.pop()
        mean = np.mean(points, axis=0)
        pulled = [elastic.pull_together(x, mean, centre, share=1 / len(points))[0] for x in points]
        centre = elastic.pull_together(points[0], mean, centre, share=1 / len(points))[1]
        points = [x - 0.1 * (x - 1) for x in pulled]
    np.testing.assert_allclose(centre, 1, atol=1e-4)


@pytest.mark.parametrize("count", [1, 4])
def test_the_centre_slows_all_by_what_it_weighs(count: int) -> None:
    points, centre = np.zeros(count), np.zeros(1)
    for _ in range(200):
        points = points + 1.0
        mean = points.mean(keepdims=True)
        points, centre = elastic.pull_together(points, mean, centre, share=1 / count)
    assert centre[0] == pytest.approx(200 * elastic.pace(count), abs=1)


def test_an_asynchronous_meeting_keeps_the_sum() -> None:
    (x,), centre = workers(1), np.ones(6)
    moved, after = elastic.pull(x, centre, elastic.force(1 / 3))
    np.testing.assert_allclose(x + elastic.pulled_by(x, after, elastic.force(1 / 3)), moved)
    np.testing.assert_allclose(moved, x - 0.3 * (x - centre))
    np.testing.assert_allclose(moved + after, x + centre)


def test_the_momentum_of_eamsgd_is_nesterovs() -> None:
    x, v = np.array([1.0]), np.array([0.5])
    gradient = 2 * (x + 0.9 * v)
    moved, velocity = nesterov(x, v, gradient, rate=0.1, momentum=0.9)
    assert velocity == pytest.approx([0.9 * 0.5 - 0.1 * 2 * 1.45])
    assert moved == pytest.approx(x + velocity)


def test_asynchronous_workers_bring_a_momentum_of_their_own() -> None:
    assert downpour.explicit_momentum(0.9, 1) == 0.9
    assert downpour.explicit_momentum(0.9, 4) == pytest.approx(0.15)
    assert downpour.explicit_momentum(0.9, 16) == 0.0
    assert [downpour.rate_for(1.0, s) for s in (0, 1, 4)] == [1, 1, 0.25]


def test_a_push_counts_for_less_the_staler_it_is() -> None:
    centre, pushes = np.ones(3), [Push(np.full(3, 8.0), 0.5, 0), Push(np.full(3, 6.0), 0.5, 3)]
    after, velocity = downpour.updated(centre, None, pushes)
    assert velocity is None
    np.testing.assert_allclose(after, 1 + 4 + 1)


def test_the_momentum_of_the_centre_is_heavy_balls() -> None:
    centre, velocity = np.zeros(1), np.array([2.0])
    push = Push(np.array([3.0]), 1.0, 0)
    after, velocity = downpour.updated(centre, velocity, [push], momentum=0.5)
    assert (after, velocity) == (4.0, 4.0)


def test_workers_that_all_push_at_once_make_their_mean() -> None:
    points = workers(4)
    after, _ = downpour.updated(np.zeros(6), None, [Push(p, 1 / 4, 0) for p in points])
    np.testing.assert_allclose(after, np.mean(points, axis=0))


@given(
    st.integers(1, 20), st.integers(1, 12), st.one_of(st.none(), st.integers(1, 9)),
)  # fmt: skip
def test_workers_come_in_turn_and_none_is_staler_than_the_bound(
    members: int, every: int, bound: int | None
) -> None:
    """A worker that pushes after a step is served after the next one, and pulls after that."""
    count = turns.groups(members, every, bound)
    version, known, coming = 0, [0] * members, [0] * members
    pushed: list[tuple[int, int]] = []
    served: list[int] = []
    visits, stale = [0] * members, set()
    for step in range(5 * every):
        for place in served:
            known[place] = coming[place]
        stale |= {version - at for _, at in pushed}
        version += bool(pushed)
        served = [place for place, _ in pushed]
        coming = [version if place in served else coming[place] for place in range(members)]
        pushed = [
            (place, known[place])
            for place in range(members)
            if turns.is_turn(place, step, every=every, groups=count)
        ]
        for place, _ in pushed:
            visits[place] += 1
    assert visits == [5] * members
    assert max(stale) <= (max(count - 1, 1) if bound is None else bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("version", [0, 1 << 24 | 1, 0x7FF8_0000_7FC0_0001])
def test_a_message_brings_its_version_bit_by_bit(dtype: type, version: int) -> None:
    """Also one that would be no number."""
    message = versioned_message.pack(np.arange(5, dtype=dtype), version)
    into = versioned_message.empty_message(5, message.dtype)
    assert (into.shape, into.dtype) == (message.shape, message.dtype)
    into[:] = message
    vector, got = versioned_message.unpack(into)
    np.testing.assert_array_equal(vector, np.arange(5))
    assert got == version


def test_the_phases_of_daso() -> None:
    blocking = [daso.blocking(epoch, 22) for epoch in range(22)]
    assert blocking == [True] * 4 + [False] * 14 + [True] * 4
    assert [daso.blocking(epoch, 6) for epoch in range(6)] == [True, *[False] * 4, True]
    assert not any(daso.blocking(epoch, 3) for epoch in range(3))


def test_a_plateau_makes_daso_average_more_often_and_then_starts_over() -> None:
    plateau = daso.Plateau()
    assert plateau.epoch_ended(1.0) == daso.FIRST == (4, 1, 1)
    assert plateau.epoch_ended(0.5) == daso.FIRST
    paces = [plateau.epoch_ended(0.49) for _ in range(12)]
    assert paces[2::3] == [(2, 1, 1), (1, 1, 1), (8, 2, 2), (4, 1, 1)]
    assert paces[:2] == [daso.FIRST] * 2


def test_a_late_average_is_merged_as_published() -> None:
    own, sent = np.array([2.0]), [np.array([1.0]), np.array([4.0]), np.array([7.0])]
    got = daso.merge(own, np.sum(sent, axis=0), waited=2, members=3)
    assert got == pytest.approx((4 * 2.0 + 12) / 7)
    assert daso.merge(own, np.array([12.0]), waited=0, members=3) == pytest.approx(4.0)


def test_the_active_rank_of_each_node_rotates_over_those_alive() -> None:
    nodes = [(0, 1, 2), (3, 4), (), (5,)]
    assert [daso.active(nodes, turn) for turn in range(3)] == [(0, 3, 5), (1, 4, 5), (2, 3, 5)]


def test_nodes_are_the_ranks_of_a_host_or_so_many_in_a_row() -> None:
    members = [(0, "a"), (2, "b"), (3, "a"), (4, "b"), (7, "c")]
    assert nodes.nodes_of(members) == [[0, 3], [2, 4], [7]]
    assert nodes.nodes_of(members, ranks_per_node=4) == [[0, 2, 3], [4, 7]]


speeds = st.lists(st.floats(0.1, 100), min_size=1, max_size=9)


@given(speeds, st.integers(0, 2000), st.sampled_from([1, 8]))
def test_shares_are_whole_and_nobody_has_none(
    measured: list[float], more: int, quantum: int
) -> None:
    total = len(measured) + more
    given_out = balance.shares(total, measured, quantum=quantum)
    assert sum(given_out) == total
    assert min(given_out) >= 1
    if total >= 2 * quantum * len(measured):
        assert sum(share % quantum != 0 for share in given_out) <= 1


def test_shares_follow_the_speeds() -> None:
    assert balance.shares(70, [3.0, 3.0, 1.0]) == [30, 30, 10]
    assert balance.shares(64, [1.0, 1.0]) == [32, 32]
    with pytest.raises(ValueError, match="Received: 2 for 3"):
        balance.shares(2, [1.0] * 3)


def test_a_rank_that_slows_down_is_given_less_and_small_gains_are_left() -> None:
    smooth, given_out = [8.0, 8.0, 8.0], [32, 32, 32]
    for _ in range(8):
        true = [9.0, 9.0, 3.0]
        measured = [balance.speed([(b, b / s)]) for b, s in zip(given_out, true, strict=True)]
        smooth = [balance.smoothed(old, new) for old, new in zip(smooth, measured, strict=True)]
        wanted = balance.shares(96, smooth)
        if balance.adopted(given_out, wanted, smooth):
            given_out = wanted
    step_s = max(b / s for b, s in zip(given_out, true, strict=True))
    assert step_s <= 1.1 * 96 / sum(true)
    assert not balance.adopted([33, 31], [32, 32], [1.0, 1.0])
    assert balance.smoothed(None, 5.0) == 5.0


@given(speeds, st.integers(0, 500))
def test_unequal_shares_give_the_gradient_of_the_batch(measured: list[float], more: int) -> None:
    total = len(measured) + more
    rows = np.random.default_rng(total).normal(size=(total, 3))
    parts = np.split(rows, np.cumsum(balance.shares(total, measured))[:-1])
    mean = sum(len(part) * part.mean(0) for part in parts) / total
    np.testing.assert_allclose(mean, rows.mean(0), atol=1e-13)


def test_the_rate_climbs_in_the_warm_up_and_falls_with_the_ranks() -> None:
    def factor(done: float, ranks: int = 8, scaling: str = "linear") -> float:
        return rate_factor(scaling, ranks, epochs_done=done, warm_up=5)

    assert [factor(done) for done in (0, 2.5, 5, 50)] == [1, 4.5, 8, 8]
    assert factor(6, ranks=7) == 7
    assert factor(6, ranks=9, scaling="sqrt") == 3
    assert factor(6, scaling="none") == 1
    assert rate_factor("linear", 4, epochs_done=0, warm_up=0) == 4
