"""Histories of the fits of a script, as stored in a checkpoint. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

import checkpoints

__all__ = ["HISTORIES", "history_in", "packed", "running_in"]

#: Name in ``extra`` of a checkpoint.
HISTORIES = "histories"

_PAST, _RUNNING = "past", "running"

# As returned by :func:`matex.keras_hooks.history_of`.
History = dict[str, Any]


def packed(past: Iterable[tuple[int, History]], running: History) -> np.ndarray:
    """Histories as an array of bytes.

    Args:
        past: number and history of each finished fit.
        running: history of the running fit so far.
    """
    content = json.dumps({_PAST: list(past), _RUNNING: running})
    return np.frombuffer(content.encode(), np.uint8)


def history_in(saved: checkpoints.Snapshot, fit: int) -> History | None:
    """History of *fit*, finished when *saved* was made; None if unknown."""
    found: dict[int, History] = dict(_unpacked(saved).get(_PAST, ()))
    return found.get(fit)


def running_in(saved: checkpoints.Snapshot) -> History | None:
    """History so far of the fit in which *saved* was made; None if unknown."""
    found: History | None = _unpacked(saved).get(_RUNNING)
    return found


def _unpacked(saved: checkpoints.Snapshot) -> dict[str, Any]:
    content = saved.extra.get(HISTORIES)
    return {} if content is None else dict(json.loads(content.tobytes()))
