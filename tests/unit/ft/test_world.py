"""Membership is a value: a repair makes a new one, and original ranks never change."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft.processes import started_at
from ft.world import Member, World

HOSTS = ("a", "a", "b", "b", "c")


def world(rank: int = 0, hosts: tuple[str, ...] = HOSTS) -> World:
    members = tuple(Member(rank=r, host=h, pid=100 + r) for r, h in enumerate(hosts))
    return World(members=members, rank=rank)


def test_the_first_world_has_all_ranks() -> None:
    one = world(rank=2)
    assert one.ranks == (0, 1, 2, 3, 4)
    assert (one.size, one.place, one.leader, one.generation) == (5, 2, 0, 0)
    assert one.me == Member(rank=2, host="b", pid=102)
    assert not one.is_leader
    assert world(rank=0).is_leader


def test_neighbours_are_the_others_on_my_host() -> None:
    assert [m.rank for m in world(rank=2).neighbours] == [3]
    assert world(rank=4).neighbours == ()
    assert [m.rank for m in world(rank=1, hosts=("x",) * 3).neighbours] == [0, 2]


def test_after_the_leader_died_the_next_one_leads() -> None:
    one = world(rank=3).of([1, 3, 4])
    assert one.ranks == (1, 3, 4)
    assert (one.rank, one.place, one.leader, one.size, one.generation) == (3, 1, 1, 3, 1)
    assert one.neighbours == ()
    assert world(rank=1).of([1, 3]).is_leader


@given(st.permutations(range(5)), st.integers(1, 4))
def test_the_order_of_members_is_kept_and_the_old_world_too(kept: list[int], n: int) -> None:
    old = world(rank=kept[0])
    new = old.of(sorted(kept[:n]))
    assert new.ranks == tuple(sorted(kept[:n]))
    assert new.members[new.place] == old.me == new.me
    assert old.ranks == (0, 1, 2, 3, 4)
    again = new.of([kept[0]])
    assert (again.size, again.generation, again.is_leader) == (1, 2, True)


def test_the_same_members_count_as_a_repair() -> None:
    old = world()
    assert old.of(old.ranks) == dataclasses.replace(old, generation=1)


@pytest.mark.parametrize("value", [world(), world().me], ids=["World", "Member"])
def test_membership_cannot_be_changed(value: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.rank = 1  # type: ignore[attr-defined]
    assert hash(value) == hash(value)


def test_a_world_that_was_on_several_hosts_remembers_it() -> None:
    one, several = world(0, "aaa"), world(0, "aab")
    assert (one.spread, one.of([0]).spread) == (False, False)
    assert several.spread and several.of([0, 1]).of([0]).spread


def test_two_machines_of_one_name_are_two_hosts() -> None:
    members = tuple(
        Member(rank=rank, host="localhost", pid=7, boot=boot) for rank, boot in enumerate("xxy")
    )
    one = World(members=members, rank=0)
    assert (one.spread, one.host_count) == (True, 2)
    assert [member.rank for member in one.neighbours] == [1]
    assert not members[0].shares_ids_with(members[2])


def test_containers_of_one_kernel_are_hosts_of_their_own() -> None:
    members = tuple(
        Member(rank=rank, host=host, pid=7, boot="x", space=space)
        for rank, (host, space) in enumerate([("a", 1), ("b", 2), ("a", 3), ("a", 1)])
    )
    one = World(members=members, rank=0)
    assert (one.spread, one.host_count) == (True, 2)
    assert [member.rank for member in one.neighbours] == [2, 3]
    assert [m.rank for m in members if m.shares_ids_with(one.me)] == [0, 3]


def test_this_process_says_since_when_it_runs_and_on_which_start_of_the_host() -> None:
    here = Member.here(0)
    assert here.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as later:
        assert 0 < here.started <= started_at(later.pid)
        assert started_at(os.getpid()) == here.started
    assert started_at(later.pid) == 0
