"""The allotment of removals to groups meets a target at the least cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matex.apoptosis.allotment import allotted, removable_in
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.group_statistics import Removal
from matex.apoptosis.search import Candidate


def candidate(number: int, increments: Sequence[float], *, readers: int = 1) -> Candidate:
    """A group of twice as many units as could die, at these costs one after the other."""
    count = len(increments)
    reading: Any = None
    members = np.arange(2 * count)
    group = Group(f"g{number}", members, (), False, (), (reading,) * readers)
    removal = Removal(members[count:], members[:count], np.cumsum(increments))
    return Candidate(number, group, removal, np.inf)


def at_least(count: float, savings: Sequence[float]) -> Callable[[Sequence[Candidate]], bool]:
    return lambda some: sum(len(c.removal.removed) * savings[c.number] for c in some) >= count


def removed(some: Sequence[Candidate]) -> dict[int, int]:
    return {one.number: len(one.removal.removed) for one in some}


def test_what_costs_least_for_what_it_saves_dies_first() -> None:
    found = [candidate(0, [0.1, 0.2, 0.3, 0.4]), candidate(1, [0.3, 0.5, 0.7, 0.9])]
    assert removed(allotted(found, [1, 1], at_least(4, [1, 1]))) == {0: 3, 1: 1}
    assert removed(allotted(found, [1, 3], at_least(4, [1, 3]))) == {0: 1, 1: 1}


def test_a_group_that_several_read_costs_all_of_them() -> None:
    found = [candidate(0, [0.1, 0.2, 0.3, 0.4], readers=5), candidate(1, [0.3, 0.35, 0.9, 0.9])]
    assert removed(allotted(found, [1, 1], at_least(2, [1, 1]))) == {1: 2}


def test_all_die_where_the_target_is_out_of_reach() -> None:
    found = [candidate(0, [0.1, 0.2]), candidate(1, [0.3, 0.5])]
    assert removed(allotted(found, [1, 1], lambda _: False)) == {0: 2, 1: 2}


def test_no_more_die_than_the_target_wants_where_the_first_units_cost_most() -> None:
    """A group is not removed as a whole, as where the order is random."""
    found = [candidate(0, [0.9, 0.1, 0.1, 0.1]), candidate(1, [0.9, 0.2, 0.2, 0.2])]
    assert removed(allotted(found, [1, 1], at_least(4, [1, 1]))) == {0: 2, 1: 2}
    assert removed(allotted(found, [1, 1], at_least(7, [1, 1]))) == {0: 4, 1: 3}


def test_no_more_goes_than_was_asked_for_also_where_it_costs_nothing() -> None:
    found = [candidate(0, [0.0, 0.0, 0.1]), candidate(1, [0.0, 0.5])]
    assert removed(allotted(found, [1, 1], at_least(1, [1, 1]))) == {0: 1}
    assert removed(allotted(found, [1, 1], at_least(2, [1, 1]))) == {0: 1, 1: 1}


COSTS = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(st.lists(COSTS, min_size=1, max_size=4), st.floats(0.1, 1), st.data())
def test_the_target_is_met_and_nothing_dies_for_more_than_it_must(
    costs: list[list[float]], part: float, data: st.DataObject
) -> None:
    savings = [data.draw(st.floats(0.5, 4)) for _ in costs]
    found = [candidate(number, own) for number, own in enumerate(costs)]
    total = sum(len(own) * saving for own, saving in zip(costs, savings, strict=True))
    target = part * total * (1 - 1e-9)
    left = allotted(found, savings, at_least(target, savings))
    assert at_least(target, savings)(left)
    for one in left:
        whole = found[one.number].removal
        count = len(one.removal.removed)
        np.testing.assert_array_equal(one.removal.removed, whole.removed[:count])
        both = np.concatenate([one.removal.kept, one.removal.removed])
        np.testing.assert_array_equal(np.sort(both), one.group.members)


def test_what_must_stay_of_each_part_stays() -> None:
    parts = ((np.arange(6), 4), (np.arange(4, 10), 1))
    group = Group("g", np.arange(10), parts, False, (), ())
    removable = removable_in(group)
    alive = np.setdiff1d(np.arange(10), removable)
    assert np.isin(alive, parts[0][0]).sum() == 4
    assert np.isin(alive, parts[1][0]).sum() >= 1
    assert len(removable) >= 5
