"""The histories of the fits of a script, as a checkpoint keeps them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

import checkpoints

__all__ = ["HISTORIES", "history_in", "packed", "running_in"]

#: The name in ``extra`` of a checkpoint.
HISTORIES = "histories"

_PAST, _RUNNING = "past", "running"

# As :func:`matex.keras_hooks.history_of` gives it.
History = dict[str, Any]


def packed(past: Iterable[tuple[int, History]], running: History) -> np.ndarray:
    """The histories as an array of bytes.

    Args:
        past: number and history of each fit that is over.
        running: history of the running fit so far.
    """
    content = json.dumps({_PAST: list(past), _RUNNING: running})
    return np.frombuffer(content.encode(), np.uint8)


def history_in(saved: checkpoints.Snapshot, fit: int) -> History | None:
    """The history of *fit*, which was over when *saved* was made; None where it is not known."""
    found: dict[int, History] = dict(_unpacked(saved).get(_PAST, ()))
    return found.get(fit)


def running_in(saved: checkpoints.Snapshot) -> History | None:
    """The history so far of the fit in which *saved* was made; None where it is not known."""
    found: History | None = _unpacked(saved).get(_RUNNING)
    return found


def _unpacked(saved: checkpoints.Snapshot) -> dict[str, Any]:
    content = saved.extra.get(HISTORIES)
    return {} if content is None else dict(json.loads(content.tobytes()))
