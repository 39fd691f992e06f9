"""Capacity for batches whose rows have free lengths."""

from __future__ import annotations

import pytest

from matex.partition.slot_capacity import SlotCapacity


@pytest.mark.parametrize(
    ("other", "tensors", "fits"),
    [
        (SlotCapacity(16, (8, 3)), [0, 1], True),
        (SlotCapacity(17, (8, 3)), [], False),
        (SlotCapacity(1, (9, 1)), [0], False),
        (SlotCapacity(1, (9, 1)), [1], True),
        (SlotCapacity(16), [], True),
        (SlotCapacity(16), [0], False),  # nobody knows its lengths
    ],
)
def test_only_tensors_that_are_looked_up_matter(
    other: SlotCapacity, tensors: list[int], fits: bool
) -> None:
    assert SlotCapacity(16, (8, 4)).holds(other, tensors) == fits


def test_it_grows_to_powers_of_two_but_for_the_first_rows() -> None:
    first = SlotCapacity(1, (1, 1)).grown(SlotCapacity(30, (5, 1)))
    assert first == SlotCapacity(30, (8, 1))
    assert first.grown(SlotCapacity(20, (9, 1))) == SlotCapacity(30, (16, 1))
    assert first.grown(SlotCapacity(31, (8, 2))) == SlotCapacity(32, (8, 2))


def test_few_batches_make_it_grow() -> None:
    capacity, grown = SlotCapacity(1, (1,)), 0
    for length in range(1, 1000):
        if not capacity.holds(SlotCapacity(4, (length,)), [0]):
            capacity, grown = capacity.grown(SlotCapacity(4, (length,))), grown + 1
    assert grown == 11
