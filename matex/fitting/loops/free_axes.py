"""Axes along which batches differ in size, so that one traced step can take all of them. Pure."""

from __future__ import annotations

__all__ = ["Axes", "FreeAxes", "Sizes", "every_axis", "masked"]

Sizes = tuple[tuple[int, ...], ...]
"""Sizes of the tensors of a batch along all their axes but the first."""

Axes = frozenset[tuple[int, int]]
"""Axes of the tensors of a batch: number of the tensor, and of its axis."""


class FreeAxes:
    """Axes in which batches of one kind differ, whose sizes a trace leaves open. Local.

    The first batch tells all sizes. Padded to free lengths, the second one differs from it; every
    step that is traced from then on takes batches of any length.
    """

    def __init__(self) -> None:
        self._first: Sizes | None = None
        self._free: Axes = frozenset()
        self._is_refused = False

    def of(self, sizes: Sizes) -> Axes:
        """Free axes of a batch with *sizes*, and of those before it."""
        if self._first is None:
            self._first = sizes
        if not self._is_refused:
            self._free |= {
                (number, axis)
                for number, (first, now) in enumerate(zip(self._first, sizes, strict=True))
                for axis, (one, other) in enumerate(zip(first, now, strict=True), start=1)
                if one != other
            }
        return self._free

    def refuse(self) -> None:
        """Leave no axis open from now on: each form of batches has a trace of its own."""
        self._is_refused, self._free = True, frozenset()


def masked(sizes: Sizes, free: Axes) -> tuple[tuple[int | None, ...], ...]:
    """The *sizes* with None in place of those along *free* axes."""
    return tuple(
        tuple(None if (number, axis) in free else n for axis, n in enumerate(each, start=1))
        for number, each in enumerate(sizes)
    )


def every_axis(sizes: Sizes) -> Axes:
    """All axes of *sizes*."""
    return frozenset(
        (number, axis) for number, each in enumerate(sizes) for axis in range(1, len(each) + 1)
    )
