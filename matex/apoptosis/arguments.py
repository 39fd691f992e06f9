"""Checks of the arguments of :class:`matex.Apoptosis`. Pure."""

from __future__ import annotations

from typing import Any

from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.schedule import MODES
from matex.apoptosis.targets import MEASURES
from matex.errors import InputError

__all__ = ["check_arguments", "named"]


def check_arguments(
    *,
    mode: str,
    criterion: str,
    target: str,
    pruning_ratio: float | None,
    first_epoch: int,
    samples: int,
    every: int,
) -> None:
    """Refuse values that mean nothing; see :class:`matex.Apoptosis` for each.

    Raises:
        InputError: an argument is wrong.
    """
    _one_of("mode", mode, tuple(MODES))
    _one_of("criterion", criterion, tuple(CRITERIA))
    _one_of("target", target, MEASURES)
    if pruning_ratio is not None and not 0 < pruning_ratio < 1:
        raise InputError(
            f"pruning_ratio must be between 0 and 1. Received: pruning_ratio={pruning_ratio}"
        )
    for name, value, least in (
        ("first_epoch", first_epoch, 1),
        ("samples", samples, 1),
        ("every", every, 0),
    ):
        if value < least:
            raise InputError(f"{name} must be at least {least}. Received: {name}={value}")


def named(data: tuple[Any, ...] | None) -> dict[str, Any] | None:
    """Arrays of ``(x, y, sample_weight)`` by name; None for None."""
    if data is None:
        return None
    return dict(zip(("x", "y", "sample_weight"), data, strict=False))


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}. Received: {name}={value!r}")
