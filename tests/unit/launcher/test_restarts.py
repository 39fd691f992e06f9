"""Decisions whether a lost run is started again; pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ft
from matex.launcher.restarts import (
    SAME_STEP,
    Attempt,
    GiveUp,
    StartAgain,
    decide,
    faults_left,
    hosts_text,
    members_of,
    read_hosts,
    silent_part_is_larger,
    spread_over,
)


def lost(*steps: int, started: bool = True) -> list[Attempt]:
    return [Attempt(step=step, started=started, reason="gone") for step in steps]


def test_without_restarts_the_first_loss_is_the_last() -> None:
    assert decide(lost(40), limit=0) == GiveUp()


@pytest.mark.parametrize(
    ("steps", "delay_s"),
    [([40], 1), ([40, 80], 1), ([40, 40], 2), ([40, 80, 60], 2), ([40, 40, 41], 1), ([-1], 1)],
)
def test_the_delay_doubles_while_no_attempt_comes_further(steps: list[int], delay_s: float) -> None:
    assert decide(lost(*steps), limit=9) == StartAgain(delay_s)


@pytest.mark.parametrize("steps", [[57, 57, 57], [57, 50, 57], [10, 57, 57, 57]])
def test_the_same_step_is_not_tried_for_ever(steps: list[int]) -> None:
    assert decide(lost(*steps), limit=99) == GiveUp("step 57 failed 3 times in a row")


def test_the_limit_is_that_of_restarts_not_of_starts() -> None:
    assert decide(lost(1, 2), limit=2) == StartAgain(1)
    assert decide(lost(1, 2, 3), limit=2) == GiveUp("2 restarts were made (--max-restarts)")


def test_a_run_that_never_started_is_not_tried_again() -> None:
    assert isinstance(decide(lost(-1, started=False), limit=9), GiveUp)
    # One that did start once may find the machine not ready yet.
    assert decide([*lost(40), *lost(-1, started=False)], limit=9) == StartAgain(2)


def test_a_rank_that_was_missed_may_come_the_next_time() -> None:
    missed = Attempt(step=-1, started=False, reason="gone", missed=True)
    assert decide([missed], limit=9) == StartAgain(1)
    assert decide([missed] * 2, limit=9) == StartAgain(2)
    assert decide([missed] * 3, limit=9) == GiveUp("the start failed 3 times in a row")


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=40), st.integers(0, 50))
def test_there_is_an_end(steps: list[int], limit: int) -> None:
    decisions = [decide(lost(*steps[: n + 1]), limit=limit) for n in range(len(steps))]
    restarts = next((n for n, d in enumerate(decisions) if isinstance(d, GiveUp)), len(steps))
    assert restarts <= limit
    assert restarts <= SAME_STEP * (len(set(steps)) + 1)
    delays = [d.delay_s for d in decisions if isinstance(d, StartAgain)]
    assert all(1 <= delay <= 60 for delay in delays)


def test_a_fault_strikes_once_in_a_run_and_only_ranks_that_are() -> None:
    texts = ["kill:rank=0,step=1", "kill:rank=3,step=9", "node:host=b,step=20"]
    planned = [ft.parse_fault(text) for text in texts]
    assert faults_left(planned, {texts[0]}, ranks=4) == (texts[1], texts[2])
    assert faults_left(planned, set(), ranks=2) == (texts[0], texts[2])
    assert faults_left(planned, set(), ranks=4, gone={"b"}) == (texts[0], texts[1])


def test_hosts_and_their_slots() -> None:
    assert read_hosts("a:2,b,c:3,a:1") == {"a": 3, "b": 1, "c": 3}
    assert read_hosts(hosts_text({"a": 3, "b": 1})) == {"a": 3, "b": 1}


def started(rank: int, host: str) -> dict[str, object]:
    return {"event": "start", "rank": rank, "host": host, "boot": f"boot of {host}"}


@pytest.mark.parametrize(
    ("slots", "processes", "spread"),
    [
        ({"a": 2, "b": 1}, 2, {"a": 1, "b": 1}),
        ({"a": 4, "b": 4}, 2, {"a": 1, "b": 1}),
        ({"a": 1, "b": 3}, 1, {"b": 1}),
        ({"a": 4, "b": 1}, 4, {"a": 3, "b": 1}),
        ({"a": 2, "b": 2}, 6, {"a": 3, "b": 3}),
        ({"a": 2, "b": 1}, 0, {}),
        ({}, 3, {}),
    ],
)
def test_each_host_has_a_waiting_process_before_one_has_two(
    slots: dict[str, int], processes: int, spread: dict[str, int]
) -> None:
    assert spread_over(slots, processes) == spread


def test_members_are_those_of_the_last_world_on_their_machines() -> None:
    events = [
        *(started(rank, f"node{rank // 2}") for rank in range(7)),
        {"event": "recovered", "rank": 0, "lost": [1]},
        {"event": "recovered", "rank": 2, "lost": [1]},
        {"event": "spare-lost", "rank": 0, "lost": [5]},
        {"event": "resize", "rank": 0, "host": None, "leaving": [6], "refused": None},
        {
            "event": "resize",
            "rank": 0,
            "host": "node9",
            "leaving": [],
            "refused": "nobody is there",
        },
    ]
    node0, node1, node2 = ((f"node{n}", f"boot of node{n}") for n in range(3))
    assert members_of(events) == {0: node0, 2: node1, 3: node1, 4: node2}
    assert members_of([]) == {}


@pytest.mark.parametrize(
    ("hosts", "silent", "larger"),
    [
        pytest.param("aabbcc", "c", False, id="a third"),
        pytest.param("aabb", "b", False, id="a half, which must ask"),
        pytest.param("aabbb", "b", True, id="one more than the others"),
        pytest.param("aabbcc", "bc", True, id="two hosts of three"),
        pytest.param("aabb", "", False, id="all answer"),
        pytest.param("", "b", False, id="none has ever met"),
    ],
)
def test_whether_silent_hosts_may_hold_a_world(hosts: str, silent: str, larger: bool) -> None:
    members = {rank: (host, "boot") for rank, host in enumerate(hosts)}
    heard = {(host, "boot") for host in "abc" if host not in silent}
    assert silent_part_is_larger(members, heard) is larger


def test_a_machine_of_the_same_name_does_not_answer_for_a_silent_one() -> None:
    members = {0: ("vm", "x"), 1: ("vm", "y"), 2: ("vm", "y")}
    assert silent_part_is_larger(members, {("vm", "x")})
    assert not silent_part_is_larger(members, {("vm", "y")})
