"""Capacity for the slices of a batch, which are exchanged in slots of a fixed number. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["SlotCapacity"]


class SlotCapacity(NamedTuple):
    """Capacity for batches, or the capacity that one batch needs.

    Where rows have free lengths, a step has slots for more values than its batches had so far, so
    that it is seldom built anew for a longer one.
    """

    rows: int
    """Number of rows."""
    values: tuple[int, ...] = ()
    """Number of values of the longest row, by tensor of the batch; () if no rank knows it."""

    def holds(self, other: SlotCapacity, tensors: Iterable[int]) -> bool:
        """Whether *other* fits, of whose tensors only those with the numbers *tensors* matter."""
        if other.rows > self.rows:
            return False
        return all(n < len(other.values) and other.values[n] <= self.values[n] for n in tensors)

    def grown(self, other: SlotCapacity) -> SlotCapacity:
        """Capacity for what this one holds and for *other*, with some more for longer rows.

        The number of rows is exact at first, because few batches are larger than the first one.
        """
        rows = other.rows if self.rows <= 1 else _power_of_two(other.rows)
        values = (
            old if old >= new else _power_of_two(new)
            for old, new in zip(self.values, other.values, strict=False)
        )
        return SlotCapacity(self.rows if self.rows >= other.rows else rows, tuple(values))


def _power_of_two(count: int) -> int:
    """Smallest power of two that is at least *count*."""
    return 1 << max(0, count - 1).bit_length()
