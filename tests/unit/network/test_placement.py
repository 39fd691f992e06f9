"""Ranks by host, and the pairs of hosts that are measured."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.network.placement import MOST_IN_FULL, Placement, pairs_of


@pytest.mark.parametrize(
    ("hosts", "leaders", "exits"),
    [
        ("ab", (0, 1), 1),
        ("aabb", (0, 2), 1),
        ("abab", (0, 1), 2),
        ("aaabbbccc", (0, 3, 6), 1),
        ("abcabcabc", (0, 1, 2), 3),
        ("aabba", (0, 2), 1),
        ("abba", (0, 1), 1),
        ("aaaa", (0,), 0),
        ("a", (0,), 0),
    ],
)
def test_leaders_and_ranks_whose_next_is_elsewhere(
    hosts: str, leaders: tuple[int, ...], exits: int
) -> None:
    placement = Placement(tuple(hosts))
    assert placement.leaders == leaders
    assert placement.ring_exits == exits
    assert "".join(placement.hosts) == "".join(dict.fromkeys(hosts))


def test_a_placement_is_said_in_one_line() -> None:
    assert Placement(("a", "a", "b")).text() == "3 ranks on 2 hosts (a:2, b:1)"
    assert Placement(("a",)).text() == "1 rank on 1 host (a:1)"
    many = Placement(tuple(f"h{n}" for n in range(20)))
    assert many.text().endswith("h7:1, ...)")


@given(st.integers(2, 40))
def test_each_host_is_measured_and_each_pair_once(hosts: int) -> None:
    pairs = pairs_of(hosts)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    times = Counter(host for pair in pairs for host in pair)
    each = hosts - 1 if hosts <= MOST_IN_FULL else 2
    assert times == dict.fromkeys(range(hosts), each)
