"""An epoch's order is a permutation fixed by (seed, epoch); fingerprints tell samples apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.partition.order import Order, OrderSeed, as_stored, shuffled_anew
from matex.partition.spans import Span


def order(
    samples: int = 100,
    batch_size: int = 10,
    *,
    shuffle: bool = True,
    seed: int = 0,
    epoch: int = 0,
) -> Order:
    visits = shuffled_anew(samples, seed) if shuffle else as_stored(samples)
    return Order(visits=visits(epoch), batch_size=batch_size)


@st.composite
def cut_steps(draw: st.DrawFn) -> tuple[Order, Span, list[list[Span]]]:
    """An order, one of its steps, and that step cut into the spans of some ranks."""
    samples = draw(st.integers(1, 500))
    batch_size = draw(st.integers(1, 600))
    one = order(
        samples, batch_size, shuffle=draw(st.booleans()), seed=draw(st.integers(0, 9)), epoch=1
    )
    lo, hi = one.step(draw(st.integers(0, one.steps - 1)) * batch_size)
    inner = draw(st.lists(st.integers(lo, hi), max_size=8))
    cuts = [lo, *sorted(inner), hi]
    pieces = list(pairwise(cuts))
    ranks: list[list[Span]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for piece in pieces:
        ranks[draw(st.integers(0, len(ranks) - 1))].append(piece)
    return one, (lo, hi), ranks


@given(st.integers(0, 300), st.integers(0, 2**32), st.integers(0, 1000))
def test_an_epoch_visits_every_sample_once(samples: int, seed: int, epoch: int) -> None:
    visited = order(samples, 7, seed=seed, epoch=epoch).indices([(0, samples)])
    assert visited.dtype == np.int64
    assert sorted(visited.tolist()) == list(range(samples))


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    whole = [(0, 1000)]
    first = order(1000, seed=3, epoch=4).indices(whole)
    np.testing.assert_array_equal(first, order(1000, 32, seed=3, epoch=4).indices(whole))
    for other in ({"seed": 3, "epoch": 5}, {"seed": 4, "epoch": 4}, {"seed": 4, "epoch": 3}):
        assert (order(1000, **other).indices(whole) != first).mean() > 0.9


def test_the_order_never_changes_between_versions() -> None:
    # A checkpoint written in the middle of an epoch relies on it.
    assert order(10, seed=1, epoch=2).indices([(0, 10)]).tolist() == [8, 5, 6, 0, 9, 1, 4, 3, 7, 2]


def test_without_shuffling_samples_come_as_stored() -> None:
    assert order(20, shuffle=False).indices([(3, 5), (9, 11)]).tolist() == [3, 4, 9, 10]
    assert order(20, shuffle=False).indices([]).tolist() == []


@pytest.mark.parametrize(
    ("samples", "batch_size", "steps"),
    [(100, 10, 10), (101, 10, 11), (9, 10, 1), (10, 10, 1), (0, 10, 0)],
)
def test_steps_cover_the_epoch(samples: int, batch_size: int, steps: int) -> None:
    one = order(samples, batch_size)
    assert one.steps == steps
    spans = [one.step(k * batch_size) for k in range(steps)]
    assert sum(hi - lo for lo, hi in spans) == samples
    assert all(0 < hi - lo <= batch_size for lo, hi in spans)


@given(cut_steps())
def test_fingerprints_of_the_parts_add_up(case: tuple[Order, Span, list[list[Span]]]) -> None:
    one, step, ranks = case
    parts = [one.fingerprint(spans) for spans in ranks]
    assert sum(parts) == one.fingerprint([step])
    as_sent = np.array(parts, np.float32)
    assert int(as_sent.sum(dtype=np.float32)) == one.fingerprint([step])
    indices = [one.indices(spans) for spans in ranks]
    np.testing.assert_array_equal(np.sort(np.concatenate(indices)), np.sort(one.indices([step])))


@pytest.mark.parametrize("batch_size", [1, 255, 256, 257, 1000, 65_536, 1_000_000, 1 << 20])
def test_a_step_s_fingerprint_is_exact_in_float32(batch_size: int) -> None:
    total = order(batch_size, batch_size).fingerprint([(0, batch_size)])
    assert 0 <= total < 1 << 24
    assert int(np.float32(total)) == total


def test_a_batch_too_large_for_a_fingerprint_has_none() -> None:
    one = order(10, 1 << 25, shuffle=False)
    assert one.fingerprint([(0, 10)]) == 0


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("batch_size", "bits"), [(64, 16), (256, 16), (1000, 14)])
def test_one_sample_in_place_of_another_shows(batch_size: int, bits: int, shuffle: bool) -> None:
    # Fingerprints add up (see above), so those of single samples tell for every pair at once.
    one = order(10_000, batch_size, shuffle=shuffle, seed=1)
    single = np.array([one.fingerprint([(i, i + 1)]) for i in range(one.samples)])
    _, counts = np.unique(single, return_counts=True)
    alike = (counts * (counts - 1)).sum() / (one.samples * (one.samples - 1))
    assert alike < 1.5 / (1 << bits)
    assert single.max() >= (1 << bits) * 0.99


def test_a_sample_twice_and_another_never_shows() -> None:
    one = order(1000, 100, seed=1)
    right = one.fingerprint([(200, 300)])
    for twice, never in [(200, 201), (299, 200), (250, 251), (210, 290)]:
        wrong = [(200, never), (never + 1, 300), (twice, twice + 1)]
        assert one.fingerprint(wrong) != right


@pytest.mark.parametrize("shuffle", [True, False])
def test_two_parts_that_both_slipped_by_one_show(shuffle: bool) -> None:
    # Two samples twice and two never, with equal sums of their row numbers.
    one = order(100_000, 100, shuffle=shuffle, seed=1)
    missed = 0
    for lo in range(0, 100_000, 100):
        right, wrong = [(lo, lo + 100)], [(lo + 1, lo + 51), (lo + 49, lo + 99)]
        missed += one.fingerprint(wrong) == one.fingerprint(right)
    assert missed <= 2, missed


@given(st.integers(0, 2**31), st.none() | st.integers(0, 2**31 - 2))
def test_a_checkpoint_s_cursor_holds_the_seeds(own: int, keras: int | None) -> None:
    seed = OrderSeed(own, keras)
    assert OrderSeed.of_cursor({**seed.cursor(), "epoch": 3}) == seed


def test_older_checkpoints_were_shuffled_anew() -> None:
    assert OrderSeed.of_cursor({"seed": 5, "epoch": 1}) == OrderSeed(5, None)
