"""Every sample of a step is computed exactly once, whoever has died and whoever noticed when."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.partition.spans import Span, assigned, difference, parts_of, samples_of, size, split

spans = st.tuples(st.integers(0, 1000), st.integers(0, 200)).map(lambda s: (s[0], s[0] + s[1]))
some_spans = st.lists(spans, max_size=6)


@st.composite
def memberships(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Ranks that were expected, and those of them that were lost; somebody lives."""
    expected = draw(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True).map(sorted))
    lost = draw(st.lists(st.sampled_from(expected), max_size=len(expected) - 1, unique=True))
    return expected, lost


def samples(some: list[Span]) -> list[int]:
    return [sample for lo, hi in some for sample in range(lo, hi)]


@given(spans, st.integers(1, 20))
def test_split_cuts_into_adjacent_parts_of_nearly_equal_length(span: Span, parts: int) -> None:
    cut = split(span, parts)
    assert len(cut) == parts
    assert (cut[0][0], cut[-1][1]) == span
    assert all(left[1] == right[0] for left, right in pairwise(cut))
    lengths = [hi - lo for lo, hi in cut]
    assert max(lengths) - min(lengths) <= 1


def test_split_of_known_spans() -> None:
    assert split((10, 20), 3) == [(10, 13), (13, 16), (16, 20)]
    assert split((0, 2), 4) == [(0, 0), (0, 1), (1, 1), (1, 2)]


@given(spans, memberships())
def test_the_living_compute_each_sample_once(span: Span, who: tuple[list[int], list[int]]) -> None:
    expected, lost = who
    alive = [rank for rank in expected if rank not in lost]
    shares = {rank: assigned(span, expected, lost, rank) for rank in alive}
    everything = [sample for rank in alive for sample in samples(shares[rank])]
    assert sorted(everything) == list(range(*span))


@pytest.mark.parametrize(
    ("rank", "lost", "expected"),
    [(0, [], 4), (1, [1], 4), (1, [1, 2], 6), (0, [1, 2], 12), (3, [], 0)],
    ids=["alive", "dead", "died after another", "alone", "not expected"],
)
def test_a_rank_has_its_samples_even_if_it_has_died(
    rank: int, lost: list[int], expected: int
) -> None:
    assert samples_of(rank, (0, 12), [0, 1, 2], lost) == expected


@given(spans, memberships(), st.randoms(use_true_random=False))
def test_the_order_in_which_deaths_are_noticed_does_not_matter(
    span: Span, who: tuple[list[int], list[int]], dice: object
) -> None:
    expected, lost = who
    shuffled = list(lost)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    for rank in set(expected) - set(lost):
        assert assigned(span, expected, shuffled, rank) == assigned(span, expected, lost, rank)


@given(spans, memberships())
def test_a_survivor_keeps_all_that_it_had(span: Span, who: tuple[list[int], list[int]]) -> None:
    expected, lost = who
    for rank in set(expected) - set(lost):
        before = assigned(span, expected, [], rank)
        after = assigned(span, expected, lost, rank)
        more = difference(after, before)
        assert more is not None
        assert sorted(samples(before) + samples(more)) == sorted(samples(after))


@given(spans, memberships())
def test_shares_are_sorted_joined_and_never_empty(
    span: Span, who: tuple[list[int], list[int]]
) -> None:
    expected, lost = who
    for rank in set(expected) - set(lost):
        share = assigned(span, expected, lost, rank)
        assert all(lo < hi for lo, hi in share)
        assert all(left[1] < right[0] for left, right in pairwise(share))


def test_with_more_ranks_than_samples_some_have_nothing() -> None:
    shares = [assigned((5, 7), range(4), [], rank) for rank in range(4)]
    assert shares == [[], [(5, 6)], [], [(6, 7)]]
    assert assigned((5, 5), range(2), [], 0) == []


def test_a_dead_rank_s_part_is_divided_among_the_others() -> None:
    assert assigned((0, 12), (0, 1, 2), (2,), 0) == [(0, 4), (8, 10)]
    assert assigned((0, 12), (0, 1, 2), (2,), 1) == [(4, 8), (10, 12)]
    assert assigned((0, 12), (0, 1, 2), (0, 1), 2) == [(0, 12)]


@pytest.mark.parametrize("rank", [1, 7])
def test_only_a_living_member_has_a_share(rank: int) -> None:
    with pytest.raises((KeyError, ValueError)):
        assigned((0, 12), (0, 1, 2), (1,), rank)


@given(some_spans, some_spans)
def test_difference_is_what_is_wanted_and_not_there(wanted: list[Span], have: list[Span]) -> None:
    unwanted = set(samples(have)) - set(samples(wanted))
    missing = difference(wanted, have)
    if unwanted:
        assert missing is None
    else:
        assert missing is not None
        assert set(samples(missing)) == set(samples(wanted)) - set(samples(have))


def test_difference_of_known_spans() -> None:
    assert difference([(0, 10)], []) == [(0, 10)]
    assert difference([(0, 10)], [(0, 10)]) == []
    assert difference([(0, 10)], [(3, 5)]) == [(0, 3), (5, 10)]
    assert difference([(0, 10)], [(8, 12)]) is None
    assert difference([(0, 4), (4, 8)], [(2, 6)]) == [(0, 2), (6, 8)]


@given(
    st.integers(0, 400),
    st.lists(st.floats(0.1, 50), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
)
def test_parts_by_speed_cover_the_interval_once_whoever_dies(
    length: int, measured: list[float], unknown: set[int], lost: set[int]
) -> None:
    span, ranks = (7, 7 + length), list(range(len(measured)))
    speeds = {rank: speed for rank, speed in enumerate(measured) if rank not in unknown}
    alive = [rank for rank in ranks if rank not in lost]
    if alive:
        gone = [rank for rank in ranks if rank in lost]
        spans = [s for rank in alive for s in assigned(span, ranks, gone, rank, speeds)]
        assert difference([span], spans) == []
        assert size(spans) == length


def test_a_rank_of_unknown_speed_counts_as_the_others_on_average() -> None:
    parts = parts_of((0, 96), (0, 2, 5), {0: 10.0, 5: 30.0})
    assert parts == {0: (0, 16), 2: (16, 48), 5: (48, 96)}
    assert parts_of((0, 2), (0, 1, 2), {0: 1.0}) == {0: (0, 0), 1: (0, 1), 2: (1, 2)}
