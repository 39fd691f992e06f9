"""Room for batches whose rows have free lengths."""

from __future__ import annotations

import pytest

from matex.partition.room import Room


@pytest.mark.parametrize(
    ("other", "tensors", "fits"),
    [
        (Room(16, (8, 3)), [0, 1], True),
        (Room(17, (8, 3)), [], False),
        (Room(1, (9, 1)), [0], False),
        (Room(1, (9, 1)), [1], True),
        (Room(16), [], True),
        (Room(16), [0], False),  # nobody knows its lengths
    ],
)
def test_only_tensors_that_are_looked_up_matter(
    other: Room, tensors: list[int], fits: bool
) -> None:
    assert Room(16, (8, 4)).holds(other, tensors) == fits


def test_it_grows_to_powers_of_two_but_for_the_first_rows() -> None:
    first = Room(1, (1, 1)).grown(Room(30, (5, 1)))
    assert first == Room(30, (8, 1))
    assert first.grown(Room(20, (9, 1))) == Room(30, (16, 1))
    assert first.grown(Room(31, (8, 2))) == Room(32, (8, 2))


def test_few_batches_make_it_grow() -> None:
    room, grown = Room(1, (1,)), 0
    for length in range(1, 1000):
        if not room.holds(Room(4, (length,)), [0]):
            room, grown = room.grown(Room(4, (length,))), grown + 1
    assert grown == 11
