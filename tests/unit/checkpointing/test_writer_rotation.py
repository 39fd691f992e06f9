"""The writers of a checkpoint: one rank of a host, one or several of the run, spread over them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ft import Member
from matex.checkpointing.writer_rotation import (
    team_size,
    writer_for_run,
    writer_group,
    writes_for_host,
)

worlds = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(
    lambda hosts: [Member(rank=3 * n + 1, host=host, pid=1) for n, host in enumerate(hosts)]
)


@given(worlds, st.integers(0, 1000))
def test_one_rank_of_the_run_and_one_of_each_host(members: list[Member], number: int) -> None:
    assert writer_for_run(number, members) in {member.rank for member in members}
    chosen = [m.host for m in members if writes_for_host(number, members, m.rank)]
    assert sorted(chosen) == sorted({member.host for member in members})


@given(worlds)
def test_the_work_is_spread_over_hosts_and_their_ranks(members: list[Member]) -> None:
    hosts = {member.host for member in members}
    rounds = 60 * len(hosts)
    by_host: Counter[str] = Counter()
    by_rank: Counter[int] = Counter()
    for number in range(rounds):
        rank = writer_for_run(number, members)
        (writer,) = (m for m in members if m.rank == rank)
        by_host[writer.host] += 1
        by_rank[writer.rank] += 1
    assert set(by_host.values()) == {60}
    assert set(by_rank) == {member.rank for member in members}


@given(worlds, st.integers(0, 100), st.integers(1, 12))
def test_a_team_is_spread_over_hosts_before_it_takes_a_second_rank_of_one(
    members: list[Member], number: int, size: int
) -> None:
    first = writer_for_run(number, members)
    team = writer_group(first, members, size)
    assert team[0] == first
    assert len(set(team)) == len(team) == min(size, len(members))
    hosts = {member.rank: member.host for member in members}
    used = Counter(hosts[rank] for rank in team)
    there = Counter(hosts.values())
    for host, count in there.items():
        assert used[host] >= min(count, max(used.values()) - 1)


@given(st.integers(0, 10**12), st.integers(1, 10**9), st.integers(1, 1000))
def test_parts_are_as_large_as_was_asked_for(nbytes: int, part: int, ranks: int) -> None:
    size = team_size(nbytes, part, ranks)
    assert 1 <= size <= ranks
    assert size == 1 or nbytes / size >= part
    assert size == ranks or nbytes < part * (size + 1)
    assert team_size(nbytes, 0, ranks) == 1
