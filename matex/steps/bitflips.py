"""Injected silent corruption: one flipped bit in one element of a variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ft

__all__ = ["flip", "flip_injected", "flipped"]


def flipped(value: np.ndarray, *, place: int, bit: int) -> np.ndarray:
    """Copy of *value* with *bit* (0 is the least significant) of the element at *place* flipped.

    *place* is taken modulo the size, and *bit* modulo the width of the dtype. Pure.
    """
    changed = np.array(value, copy=True)
    width = 8 * changed.itemsize
    words = changed.reshape(-1).view(f"u{changed.itemsize}")
    words[place % words.size] ^= words.dtype.type(1 << (bit % width))
    return changed


def flip(model: Any, fault: ft.Fault, *, step: int) -> None:
    """Carry out a ``bitflip`` on the largest variable of its target; local.

    The element is a function of the step number.
    """
    targets: dict[str, Sequence[Any]] = {
        "weights": model.trainable_variables,
        "optimizer": model.optimizer.variables,
    }
    variable = max(targets[fault.target], key=lambda v: int(np.prod(v.shape)))
    value = np.asarray(variable.numpy())
    variable.assign(flipped(value, place=(step + 1) * 2654435761, bit=fault.bit))


def flip_injected(model: Any, faults: ft.Injector, *, step: int) -> None:
    """Carry out each ``bitflip`` that *faults* has for the running *step*; local."""
    for fault in faults.take("bitflip"):
        flip(model, fault, step=step)
