"""The spares that take places at a view change, equal on every rank; no other's work changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft.errors import UsageError
from ft.views import Purpose, View, next_view
from matex.partition.spans import assigned

WORKING = (0, 1, 2, 3)


def before(waiting: tuple[int, ...] = (4, 5), **more: object) -> View:
    start = View(
        agreed_purpose=Purpose.SET_ASIDE, done=7, members=WORKING, waiting=waiting, expected=WORKING
    )
    return dataclasses.replace(start, **more)  # type: ignore[arg-type]


def came(*working: int, waiting: tuple[int, ...] = (4, 5), purpose: Purpose = Purpose.FILL):
    return {**dict.fromkeys(working, purpose), **dict.fromkeys(waiting, Purpose.WAIT)}


def test_a_spare_stands_where_the_dead_stood() -> None:
    now = next_view(before(), came(0, 2, 3), at_same_operation=True)
    assert now.members == now.expected == (0, 4, 2, 3)
    assert (now.lost, now.vacant, now.waiting) == ((), (), (5,))
    assert (now.left, now.joined, now.agreed_purpose) == ((1,), (4,), Purpose.FILL)


def test_what_no_spare_is_left_for_stays_lost() -> None:
    now = next_view(before(waiting=(4,)), came(0, 3, waiting=(4,)), at_same_operation=True)
    assert now.expected == (0, 4, 2, 3)
    assert now.members == (0, 4, 3)
    assert (now.lost, now.vacant, now.waiting) == ((2,), (2,), ())


def test_a_dead_spare_is_not_chosen() -> None:
    now = next_view(before(), came(0, 2, 3, waiting=(5,)), at_same_operation=True)
    assert now.members == (0, 5, 2, 3)
    assert now.waiting == ()


def test_nobody_joins_an_operation_that_some_have_completed() -> None:
    apart = next_view(before(), came(0, 2, 3), at_same_operation=False)
    at_odds = next_view(before(), {**came(0, 2, 3), 3: Purpose.RECOVER}, at_same_operation=True)
    assert (apart.at_same_operation, at_odds.at_same_operation) == (False, True)
    for now in (apart, at_odds):
        assert (now.agreed_purpose, now.members, now.lost) == (Purpose.RECOVER, (0, 2, 3), (1,))
        assert (now.vacant, now.waiting, now.joined) == ((1,), (4, 5), ())


def test_a_place_of_an_earlier_operation_comes_last() -> None:
    earlier = before(members=(0, 2, 3), expected=(0, 2, 3), vacant=(1,))
    now = next_view(earlier, came(0, 2, 3), at_same_operation=True)
    assert now.members == now.expected == (0, 2, 3, 4)
    assert (now.left, now.joined, now.vacant) == ((1,), (4,), ())


def test_members_step_aside_and_come_back() -> None:
    all_work = before(waiting=(), members=(*WORKING, 4), expected=(*WORKING, 4))
    aside = came(*WORKING, 4, waiting=(), purpose=Purpose.SET_ASIDE)
    now = next_view(all_work, aside, at_same_operation=True, working=3)
    assert (now.members, now.waiting) == ((0, 1, 2), (3, 4))
    back = came(0, 1, 2, waiting=(3, 4), purpose=Purpose.CALL_BACK)
    again = next_view(now, back, at_same_operation=True)
    assert again.members == again.expected == (*WORKING, 4)
    assert again.waiting == ()


def test_those_in_reserve_alone_are_refused() -> None:
    with pytest.raises(UsageError, match="only such in reserve"):
        next_view(before(), came(waiting=(4, 5)), at_same_operation=True)


@given(dead=st.sets(st.sampled_from(WORKING), max_size=3), spares=st.integers(0, 3))
def test_every_sample_has_one_rank_and_survivors_keep_theirs(dead: set[int], spares: int) -> None:
    waiting = tuple(range(4, 4 + spares))
    alive = [rank for rank in WORKING if rank not in dead]
    now = next_view(before(waiting=waiting), came(*alive, waiting=waiting), at_same_operation=True)
    assert len(now.members) == min(4, len(alive) + spares)
    parts = {rank: assigned((0, 40), now.expected, now.lost, rank) for rank in now.members}
    samples = sorted(s for spans in parts.values() for lo, hi in spans for s in range(lo, hi))
    assert samples == list(range(40))
    for rank in alive:
        (own,) = assigned((0, 40), WORKING, (), rank)
        assert any(lo <= own[0] and own[1] <= hi for lo, hi in parts[rank])


def test_a_charter_survives_its_way() -> None:
    view = before(lost=(1,), vacant=(1,), left=(2,), joined=(4,))
    packed = view.pack(6)
    assert packed.shape == before(waiting=()).pack(6).shape
    assert View.unpack(packed) == view
    with pytest.raises(ValueError, match="something else"):
        View.unpack(np.zeros_like(packed))


def test_a_newcomer_changes_nothing_of_the_running_operation() -> None:
    earlier = before(waiting=(), members=(0, 2, 3), expected=(0, 2, 3), vacant=(1,))
    now = next_view(
        earlier, came(0, 2, 3, waiting=(), purpose=Purpose.ADMIT), at_same_operation=True
    )
    assert (now.agreed_purpose, now.members, now.expected) == (Purpose.ADMIT, (0, 2, 3), (0, 2, 3))
    assert (now.vacant, now.waiting) == ((1,), ())


def test_a_place_stays_vacant_where_too_few_come_back() -> None:
    short = before(waiting=(6,), members=(0, 3), expected=(0, 3), vacant=(1, 2))
    back = next_view(
        short, came(0, 3, waiting=(6,), purpose=Purpose.CALL_BACK), at_same_operation=True
    )
    assert (back.members, back.vacant) == ((0, 3, 6), (2,))
    aside = came(0, 3, 6, waiting=(), purpose=Purpose.SET_ASIDE)
    again = next_view(back, aside, at_same_operation=True, working=4)
    assert (again.members, again.waiting, again.vacant) == ((0, 3, 6), (), (2,))
    enough = next_view(back, aside, at_same_operation=True, working=3)
    assert enough.vacant == ()
