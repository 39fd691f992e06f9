"""Who saves a checkpoint: exactly one rank of the run or of a host, spread over them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ft import Member
from matex.writers import writes_for_host, writes_for_run

worlds = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(
    lambda hosts: [Member(rank=3 * n + 1, host=host, pid=1) for n, host in enumerate(hosts)]
)


@given(worlds, st.integers(0, 1000))
def test_one_rank_of_the_run_and_one_of_each_host(members: list[Member], number: int) -> None:
    ranks = [member.rank for member in members]
    assert sum(writes_for_run(number, members, rank) for rank in ranks) == 1
    chosen = [m.host for m in members if writes_for_host(number, members, m.rank)]
    assert sorted(chosen) == sorted({member.host for member in members})


@given(worlds)
def test_the_work_is_spread_over_hosts_and_their_ranks(members: list[Member]) -> None:
    hosts = {member.host for member in members}
    rounds = 60 * len(hosts)
    by_host: Counter[str] = Counter()
    by_rank: Counter[int] = Counter()
    for number in range(rounds):
        (writer,) = (m for m in members if writes_for_run(number, members, m.rank))
        by_host[writer.host] += 1
        by_rank[writer.rank] += 1
    assert set(by_host.values()) == {60}
    assert set(by_rank) == {member.rank for member in members}
