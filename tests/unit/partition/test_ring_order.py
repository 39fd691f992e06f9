"""Parts of the samples go around a ring: each once an epoch, one place further in the next."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.partition.order import Order
from matex.partition.ring_order import pack_geometry, ring_visits, sharers, unpack_geometry
from matex.partition.spans import assigned

sizes = st.tuples(st.integers(1, 400), st.integers(1, 60), st.integers(1, 9))


def ring(samples: int, width: int, places: int, *, epoch: int = 0, seed: int = 0) -> Order:
    rows = ring_visits(samples, seed=seed, epoch=epoch, places=places, width=width)
    return Order(visits=rows, batch_size=width)


def visits(order: Order) -> np.ndarray:
    return order.indices([(0, order.samples)])


def parts(order: Order, ranks: int) -> list[set[int]]:
    """Rows on which each of *ranks* trains in the epoch."""
    rows, places = visits(order), sharers(order.samples, order.batch_size, ranks)
    return [set(rows[places == place].tolist()) for place in range(ranks)]


@given(sizes, st.integers(0, 50), st.integers(0, 2**32))
def test_an_epoch_visits_every_sample_once(
    size: tuple[int, int, int], epoch: int, seed: int
) -> None:
    visited = visits(ring(*size, epoch=epoch, seed=seed))
    assert visited.dtype == np.int64
    assert sorted(visited.tolist()) == list(range(size[0]))


@given(sizes, st.integers(1, 9))
def test_sharers_are_those_to_whom_steps_are_assigned(
    size: tuple[int, int, int], ranks: int
) -> None:
    order, members = ring(*size), range(10, 10 + ranks)
    found = sharers(order.samples, order.batch_size, ranks)
    for cursor in range(0, order.samples, order.batch_size):
        span = order.step(cursor)
        for place, rank in enumerate(members):
            for lo, hi in assigned(span, members, (), rank):
                assert (found[lo:hi] == place).all()
                found[lo:hi] = -1
    assert (found == -1).all()


@pytest.mark.parametrize("places", [1, 2, 3, 4, 6])
def test_a_part_goes_to_the_next_place_and_after_a_turn_comes_back(places: int) -> None:
    turns = [parts(ring(240, 24, places, epoch=epoch), places) for epoch in range(2 * places + 1)]
    for before, after in pairwise(turns):
        assert after == before[-1:] + before[:-1]
    assert turns[0] == turns[places]


@given(sizes, st.integers(0, 20))
def test_what_does_not_go_to_the_next_place_is_what_shares_differ_by(
    size: tuple[int, int, int], epoch: int
) -> None:
    """Parts differ by a row a step, and their ends move, where a batch cannot be cut alike."""
    samples, width, places = size
    before = parts(ring(*size, epoch=epoch), places)
    after = parts(ring(*size, epoch=epoch + 1), places)
    moved = sum(len(before[place - 1] & after[place]) for place in range(places))
    uneven = width % places and samples // width
    assert samples - moved <= places * (uneven + 3)


def test_a_part_is_shuffled_anew_in_each_epoch() -> None:
    first, second = (visits(ring(400, 40, 2, epoch=epoch)) for epoch in (0, 2))
    places = sharers(400, 40, 2)
    for place in (0, 1):
        mine, again = first[places == place], second[places == place]
        assert set(mine.tolist()) == set(again.tolist())
        assert (mine != again).mean() > 0.9


def test_samples_are_spread_over_the_parts() -> None:
    (part, _) = parts(ring(10_000, 100, 2), 2)
    assert sum(part) / len(part) == pytest.approx(5000, rel=0.05)
    assert parts(ring(10_000, 100, 2, seed=1), 2)[0] != part


@given(sizes, st.integers(1, 9))
def test_fewer_ranks_share_the_same_order(size: tuple[int, int, int], ranks: int) -> None:
    order = ring(*size, epoch=3)
    found = parts(order, ranks)
    assert sum(map(len, found)) == order.samples
    assert set().union(*found) == set(range(order.samples))


def test_the_order_never_changes_between_versions() -> None:
    # A checkpoint written in the middle of an epoch relies on it.
    found = visits(ring(12, 4, 2, epoch=1, seed=1)).tolist()
    assert found == [9, 6, 0, 8, 2, 10, 11, 4, 3, 1, 5, 7]


@given(st.integers(1, (1 << 20) - 1), st.integers(1, (1 << 43) - 1))
def test_a_mark_is_of_63_bits_and_says_both(places: int, width: int) -> None:
    assert 0 < pack_geometry(places, width) < 1 << 63
    assert unpack_geometry(pack_geometry(places, width)) == (places, width)
