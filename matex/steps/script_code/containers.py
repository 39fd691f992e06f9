"""Containers of Python, compared and refilled whatever class of list or dictionary they are."""

from __future__ import annotations

from collections import deque
from types import CellType
from typing import Any

import numpy as np

__all__ = [
    "ABSENT",
    "CONTAINERS",
    "SIMPLE",
    "are_others",
    "content_of",
    "copied",
    "entries_of",
    "fill",
    "refill",
    "same_entries",
]

SIMPLE = (int, float, complex, bool, str, bytes, type(None), np.generic)
CONTAINERS = (dict, list, set, deque)
ABSENT: Any = object()
"""Value of a name or a cell that has none."""


def are_others(one: Any, other: Any) -> bool:
    """Whether two values are two objects, other than equal numbers or texts of one class."""
    if one is other:
        return False
    if isinstance(one, SIMPLE) and type(one) is type(other):
        return bool(one != other) and not (one != one and other != other)  # NaN
    return True


def content_of(cell: CellType) -> Any:
    """Value in *cell*; :data:`ABSENT` if it is empty, because its name has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def fill(cell: CellType, value: Any) -> None:
    """Put *value* into *cell*; with :data:`ABSENT`, empty it."""
    if value is not ABSENT:
        cell.cell_contents = value
    elif content_of(cell) is not ABSENT:
        del cell.cell_contents


def copied(container: Any) -> Any:
    """Plain copy of *container*."""
    plain = next(kind for kind in CONTAINERS if isinstance(container, kind))
    return plain(container)


def entries_of(container: Any) -> list[Any]:
    """Values in *container*, of a dictionary without its keys."""
    return [*container.values()] if isinstance(container, dict) else [*container]


def same_entries(one: Any, other: Any) -> bool:
    """Whether two containers of one kind hold the same values, in the same places."""
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(name in one and not are_others(one[name], v) for name, v in other.items())
    if isinstance(one, set):
        return all(value in one for value in other)
    return not any(are_others(a, b) for a, b in zip(one, other, strict=True))


def refill(container: Any, entries: Any) -> None:
    """Give *container* the *entries*, past what a class of Keras's would do with new ones."""
    plain: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
    plain.clear(container)
    (plain.update if plain in (dict, set) else plain.extend)(container, entries)
