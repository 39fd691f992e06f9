"""Sums along the tree of virtual workers have the same bits, whoever adds what."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.partition.worker_tree import folded, leaves_of, maximal


def add(a: np.float32, b: np.float32) -> np.float32:
    return np.float32(a + b)


@st.composite
def divided_workers(draw: st.DrawFn) -> tuple[list[list[int]], np.ndarray]:
    """Workers divided among ranks, and a number of each."""
    count = draw(st.integers(1, 33))
    ranks = draw(st.integers(1, 9))
    owner = draw(st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count))
    numbers = draw(
        st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=count, max_size=count)
    )
    shares = [[w for w in range(count) if owner[w] == rank] for rank in range(ranks)]
    return shares, np.array(numbers, np.float32)


@given(divided_workers())
def test_the_sum_has_the_same_bits_however_workers_are_divided(
    given_: tuple[list[list[int]], np.ndarray],
) -> None:
    shares, numbers = given_
    count = len(numbers)
    leaves = {(0, worker): number for worker, number in enumerate(numbers)}
    whole = folded(leaves, count, add)
    of_ranks = {}
    for share in shares:
        own = folded({(0, worker): numbers[worker] for worker in share}, count, add)
        assert sorted(own) == sorted(maximal(share, count))
        of_ranks |= own
    together = folded(of_ranks, count, add)
    assert len(whole) == len(together) == 1
    assert next(iter(whole.values())).tobytes() == next(iter(together.values())).tobytes()


@given(divided_workers())
def test_maximal_subtrees_cover_a_share_once(
    given_: tuple[list[list[int]], np.ndarray],
) -> None:
    shares, numbers = given_
    for share in shares:
        nodes = maximal(share, len(numbers))
        assert [leaf for node in nodes for leaf in leaves_of(node, len(numbers))] == share


@pytest.mark.parametrize(
    ("workers", "count", "nodes"),
    [
        (range(8), 8, [(3, 0)]),
        (range(4), 8, [(2, 0)]),
        (range(2, 5), 8, [(1, 1), (0, 4)]),
        (range(4, 6), 6, [(2, 1)]),
        ([5], 6, [(0, 5)]),
        ([4], 5, [(2, 1)]),
        ([], 4, []),
        ([0], 1, [(0, 0)]),
    ],
)
def test_workers_fill_the_largest_subtrees(
    workers: list[int], count: int, nodes: list[tuple[int, int]]
) -> None:
    assert maximal(workers, count) == nodes


def test_what_is_added_up_as_it_comes_is_the_same() -> None:
    numbers = np.random.default_rng(2).normal(size=13).astype(np.float32)
    at_once = folded({(0, w): number for w, number in enumerate(numbers)}, 13, add)
    bit_by_bit: dict = {}
    for worker in (3, 0, 12, 1, 2, 7, 5, 6, 4, 11, 9, 8, 10):
        bit_by_bit = folded({**bit_by_bit, (0, worker): numbers[worker]}, 13, add)
    assert bit_by_bit == at_once
