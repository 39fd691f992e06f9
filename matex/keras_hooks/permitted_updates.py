"""Limits on when optimizers may change weights, and what is called in place of their ``apply``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "in_place_of_apply",
    "is_recording",
    "is_updating",
    "recording",
    "replaced_apply",
    "updating",
]

Apply = Callable[[Any, list[Any], Any], None]

_updating = 0
_recording = 0
_in_its_place: Apply | None = None


def in_place_of_apply() -> Apply | None:
    """Function called instead of every optimizer's ``apply`` now; None without one."""
    return _in_its_place


@contextlib.contextmanager
def replaced_apply(apply: Apply) -> Iterator[None]:
    """Context in which *apply* is called instead of the ``apply`` of every optimizer.

    Args:
        apply: function of the optimizer, the gradients, and the variables or None.
    """
    global _in_its_place  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    before, _in_its_place = _in_its_place, apply
    try:
        yield
    finally:
        _in_its_place = before


def is_updating() -> bool:
    """Whether optimizers may change weights now."""
    return _updating > 0


def is_recording() -> bool:
    """Whether only a recorded optimizer may be called now."""
    return _recording > 0


@contextlib.contextmanager
def updating() -> Iterator[None]:
    """Context of the only code in which optimizers may change weights."""
    global _updating  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _updating += 1
    try:
        yield
    finally:
        _updating -= 1


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Context of a train step whose optimizer is recorded: no other one may change weights.

    Raises:
        SeveralUpdatesFound: another did.
    """
    global _recording  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _recording += 1
    try:
        yield
    finally:
        _recording -= 1
