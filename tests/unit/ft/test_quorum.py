"""The part of a world that goes on: never two of them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft.quorum import NetworkSplit, Ruling, has_ended, no_arbiter
from ft.world import Member


def member(rank: int, host: str) -> Member:
    return Member(rank=rank, host=host, pid=100 + rank)


def split(
    hosts: list[str], present: set[int], dead: set[int], *, spread: bool | None = None
) -> NetworkSplit:
    every = [member(rank, host) for rank, host in enumerate(hosts)]
    left = [m for m in every if m.rank not in present]
    return NetworkSplit(
        present=tuple(m for m in every if m.rank in present),
        spread=len(set(hosts)) > 1 if spread is None else spread,
        dead=tuple(m for m in left if m.rank in dead),
        unknown=tuple(m for m in left if m.rank not in dead),
    )


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=8), st.data())
def test_of_two_parts_at_most_one_decides_by_itself(hosts: list[str], data: st.DataObject) -> None:
    """Each host is with one part, or dead; a part knows only of the dead on its own hosts."""
    if len(set(hosts)) == 1:
        hosts = [*hosts, "z"]
    sides = {host: data.draw(st.booleans()) for host in set(hosts)}
    dead = {rank for rank in range(len(hosts)) if data.draw(st.booleans())}
    decided = []
    for side in (True, False):
        own = {rank for rank, host in enumerate(hosts) if sides[host] == side}
        present = own - dead
        watched = {hosts[rank] for rank in present}
        seen = {rank for rank in own & dead if hosts[rank] in watched}
        if present:
            decided.append(split(hosts, present, seen).is_decided)
    assert decided.count(True) <= 1


@pytest.mark.parametrize(
    ("hosts", "present", "dead", "decided"),
    [
        ("aaaa", {2}, set(), True),  # one host: no network is between them
        ("abc", {0, 1}, set(), True),
        ("abc", {0}, set(), False),
        ("abcd", {0, 1}, set(), False),  # the very half
        ("ab", {0}, set(), False),
        ("aabb", {0, 2, 3}, {1}, True),
        ("aabb", {0}, {1}, False),  # two of whom nothing is known
        ("aaab", {0}, {1, 2}, False),
        ("aaab", {0, 1}, {2}, False),  # the dead one may have gone on before it died
        ("aaabb", {0, 1, 4}, {2}, True),
    ],
)
def test_who_may_go_on_by_itself(hosts: str, present: set[int], dead: set[int], decided: bool):
    assert split(list(hosts), present, dead).is_decided == decided


def test_where_a_host_was_lost_ranks_of_one_host_may_be_parted_by_late_news() -> None:
    for rank in (0, 1):
        assert not split(["a", "a"], {rank}, set(), spread=True).is_decided
        apart = split(["a", "a"], {rank}, {1 - rank}, spread=True)
        assert not apart.is_decided  # the other one may have gone on before it died
        assert apart.is_larger and no_arbiter(apart) == Ruling()


def test_what_is_said_names_the_ranks() -> None:
    apart = split(["a", "b", "c"], {1}, set())
    assert apart.text == "rank 1 cannot know whether ranks 0, 2 ended"
    died = split(["a", "b"], {1}, {0})
    assert died.text == "rank 1 cannot know whether rank 0 went on before the end"
    assert no_arbiter(apart).refusal == "there is nobody to ask which part may go on"


def test_a_process_has_ended_when_only_its_entry_is_left() -> None:
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    unreaped = subprocess.Popen([sys.executable, "-c", ""])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    try:
        processes = (living, unreaped, gone)
        members = [Member(rank=n, host="", pid=p.pid) for n, p in enumerate(processes)]
        assert has_ended(members[1:], within_s=60) == [True, True]
        assert has_ended(members, within_s=0) == [False, True, True]
        assert has_ended([Member(rank=0, host="", pid=os.getpid())], within_s=0) == [False]
    finally:
        living.communicate(b"\n")
        unreaped.wait()


def test_parts_of_every_size_up_to_six() -> None:
    hosts = list("abcdef")
    for count in range(2, 7):
        for sides in itertools.product((True, False), repeat=count):
            parts = [{r for r in range(count) if sides[r] == side} for side in (True, False)]
            decided = [split(hosts[:count], p, set()).is_decided for p in parts if p]
            assert decided.count(True) == (2 * len(parts[0]) != count)
