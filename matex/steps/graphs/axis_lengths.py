"""Axes that are as long as those of arguments, found by two trials with other lengths. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Axis", "filled", "followed", "two_trials"]

# Numbers of rows of two batches, and other axis lengths, one per axis.
_ROWS = (7, 5)
_OTHERS = ((11, 13, 17, 19, 23, 29, 31, 37), (29, 23, 37, 31, 41, 11, 13, 17))

Shape = Sequence[int | None]


class Axis(NamedTuple):
    """An axis of an argument: indices of the argument and of its axis, from 0."""

    argument: int
    axis: int


Lengths = dict[Axis, int]


def two_trials(shapes: Sequence[Shape]) -> tuple[Lengths, Lengths] | None:
    """Lengths of the open axes of arguments in two trials; None if there are too many axes.

    Args:
        shapes: shapes of the arguments, whose first axes are equally long; None is an open length.
    """
    unknown = [
        Axis(number, axis)
        for number, shape in enumerate(shapes)
        for axis, length in enumerate(shape)
        if length is None
    ]
    others = [place for place in unknown if place.axis]
    if len(others) > len(_OTHERS[0]):
        return None
    first, second = (
        {place: dict(zip(others, numbers, strict=False)).get(place, rows) for place in unknown}
        for rows, numbers in zip(_ROWS, _OTHERS, strict=True)
    )
    return first, second


def filled(shapes: Sequence[Shape], lengths: Lengths) -> list[tuple[int, ...]]:
    """*shapes* of arguments with the *lengths* of a trial."""
    return [
        tuple(
            lengths[Axis(number, axis)] if length is None else length
            for axis, length in enumerate(shape)
        )
        for number, shape in enumerate(shapes)
    ]


def followed(
    known: Shape, found: Sequence[Shape | None], lengths: tuple[Lengths, Lengths]
) -> list[int | Axis] | None:
    """Length of each axis of a tensor, or the axis of an argument that is as long in both trials.

    Args:
        known: shape of the tensor; None is a length that depends on the arguments.
        found: shape in each trial; None is a trial that told nothing.
        lengths: lengths of the arguments' open axes in each trial.

    Returns:
        Lengths and axes; None if an axis follows none.
    """
    first, second = found
    if first is None or second is None:
        return None
    places: dict[tuple[int | None, int | None], Axis] = {
        (lengths[0][place], lengths[1][place]): place for place in reversed(lengths[0])
    }
    sizes: list[int | Axis] = []
    for given, *both in zip(known, first, second, strict=True):
        size = places.get((both[0], both[1])) if given is None else given
        if size is None:
            return None
        sizes.append(size)
    return sizes
