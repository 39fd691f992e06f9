"""Routes: every element is added up once and comes to all, and each message has two ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ft
from matex.exchange.route import Extent, Phase, Range, Route, buckets, groups

hosts = st.lists(st.integers(1, 4), min_size=2, max_size=5)
sizes = st.integers(0, 5000)


def routes(ranks: list[int]) -> list[Route]:
    """The route as each of the ranks sees it, of whom the hosts have so many."""
    members, names = [], iter(range(sum(ranks)))
    for host, count in enumerate(ranks):
        members += [(next(names), f"host{host}") for _ in range(count)]
    members = members[::2] + members[1::2]  # hosts' ranks do not follow each other
    everyone = tuple(ft.Member(rank=rank, host=host, pid=1) for rank, host in members)
    return [Route.of(ft.World(members=everyone, rank=rank)) for rank, _ in members]


@given(hosts, sizes)
def test_each_message_that_is_sent_is_received(ranks: list[int], size: int) -> None:
    bucket = Range(7, 7 + size)
    sent: Counter[tuple[int, int, Phase, Range]] = Counter()
    received: Counter[tuple[int, int, Phase, Range]] = Counter()
    for route in routes(ranks):
        messages = route.messages_of(bucket)
        assert all(message.part.size > 0 for message in messages)
        for message in messages:
            ends = (route.place, message.peer) if message.sends else (message.peer, route.place)
            between = (*ends, message.phase, message.part)
            (sent if message.sends else received)[between] += 1
    assert sent == received
    assert set(sent.values()) <= {1}
    tags = Counter((source, target, phase) for source, target, phase, _ in sent)
    assert set(tags.values()) <= {1}, "two messages of a pair would have one tag"


@given(hosts, sizes)
def test_every_element_is_added_up_once_and_comes_to_all(ranks: list[int], size: int) -> None:
    bucket = Range(7, 7 + size)
    everyone = routes(ranks)
    owned = sorted(
        route.piece(bucket, route.index, route.host) for route in everyone if route.serves
    )
    assert [n for part in owned for n in range(*part)] == list(range(*bucket))
    for route in everyone:
        parts: dict[Phase, list[Range]] = defaultdict(list)
        for message in route.messages_of(bucket):
            if not message.sends:
                parts[message.phase].append(message.part)
        come = [*parts[Phase.FROM_OWNER], *parts[Phase.FROM_SERVER]]
        if route.serves:
            come.append(route.piece(bucket, route.index, route.host))
        assert sorted(n for part in come for n in range(*part)) == list(range(*bucket))


@given(hosts.filter(lambda ranks: max(ranks) == min(ranks)))
def test_what_leaves_a_host_does_not_depend_on_its_ranks(ranks: list[int]) -> None:
    bucket = Range(0, 1 << 20)
    out: Counter[int] = Counter()
    for route in routes(ranks):
        for message in route.messages_of(bucket):
            if message.sends and message.peer not in route.local:
                out[route.host] += message.part.size
    share = 2 * (len(ranks) - 1) / len(ranks) * bucket.size
    assert all(share - 20_000 < elements < share + 20_000 for elements in out.values())


def test_on_one_host_each_rank_is_a_host_of_its_own() -> None:
    assert [route.hosts for route in routes([3])] == [((0,), (1,), (2,))] * 3


@given(sizes, sizes, st.integers(0, 100))
def test_buckets_follow_each_other_and_the_last_is_the_auxiliary_part(
    lasting: int, slots: int, rest: int
) -> None:
    body = 1000 * (lasting + slots)
    parts = buckets(Extent(1000 * lasting, body, body + rest, np.dtype(np.float32)))
    assert parts[0].start == 0
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert not any(part.start < 1000 * lasting < part.stop for part in parts)
    assert parts[-1] == (body, body + rest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_message_of_the_largest_vector_fits_one_call(dtype: type) -> None:
    """MPI counts bytes by 31 bits; where a host has one rank a message is as long as a bucket."""
    size = 40 << 30
    cut = buckets(Extent(size - 5, size, size + 9, np.dtype(dtype)))
    assert max(part.size for part in cut) * np.dtype(dtype).itemsize < 1 << 31
    assert [part.stop for part in cut[:-1]] == [part.start for part in cut[1:]]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], [0]),
        ([10], [0, 1]),
        ([10, 1 << 20, 20], [0, 1, 3]),
        ([1 << 20, 10, 1 << 20], [0, 2, 3]),
        ([1 << 16, 1 << 16, 1 << 16], [0, 1, 3]),
    ],
)
def test_gradients_of_the_last_layers_leave_first(sizes: list[int], wanted: list[int]) -> None:
    offsets = list(accumulate(sizes, initial=0))
    assert groups(offsets, 4) == wanted
