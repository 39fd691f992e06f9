"""Values in the logs of an epoch: numbers of metrics, and whatever callbacks put beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["as_json", "number_of", "numbers_in"]

_NUMERIC = "biufV"  # kinds of NumPy's types; V: bfloat16


def number_of(value: Any) -> float | None:
    """The number that *value* is; None of texts, arrays and other objects."""
    if isinstance(value, str | bytes):  # which may read like a number
        return None
    try:
        return float(value) if np.ndim(value) == 0 else None
    except (TypeError, ValueError):
        return None


def numbers_in(logs: Mapping[str, Any] | None) -> dict[str, float]:
    """Numbers among *logs*, by name."""
    found = {name: number_of(value) for name, value in (logs or {}).items()}
    return {name: number for name, number in found.items() if number is not None}


def as_json(value: Any) -> Any:
    """*value* as JSON can hold it: numbers as floats, objects of other kinds as their texts."""
    if value is None or isinstance(value, str):
        return value
    if (number := number_of(value)) is not None:
        return number
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    array = np.asarray(value)
    return array.tolist() if array.ndim and array.dtype.kind in _NUMERIC else str(value)
