"""Plain Python values and arrays as bytes and back: the state of user callbacks.

Nothing in the bytes is executed when they are read, so they may stand in a checkpoint.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["packed", "unpacked"]

_SIMPLE = (bool, int, float, str, type(None))


class _NotPlainError(Exception):
    """A value that is not plain, and does not consist of plain values."""


def packed(values: Mapping[str, Any]) -> np.ndarray:
    """Bytes of the plain ones among the named *values*: uint8. Pure.

    Plain are None, booleans, numbers, strings, NumPy arrays and scalars without objects, and
    lists, tuples and dictionaries of plain values. The others are left out.
    """
    found = {}
    for name, value in values.items():
        try:
            found[name] = _coded(value)
        except _NotPlainError:
            continue
    return np.frombuffer(json.dumps(found).encode(), np.uint8)


def unpacked(content: np.ndarray) -> dict[str, Any]:
    """Values given to :func:`packed`, by name, with their types. Pure."""
    found: dict[str, Any] = json.loads(content.tobytes())
    return {name: _decoded(value) for name, value in found.items()}


def _coded(value: Any) -> Any:
    if type(value) in _SIMPLE:
        return value
    if type(value) is list:
        return [_coded(part) for part in value]
    if type(value) is tuple:
        return {"tuple": [_coded(part) for part in value]}
    if type(value) is dict:
        return {"dict": [[_coded(key), _coded(part)] for key, part in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        if value.dtype.kind == "V":  # bfloat16 and records, whose names NumPy may not know
            raise _NotPlainError
        text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        shape = list(value.shape) if isinstance(value, np.ndarray) else None
        return {"array": [value.dtype.str, shape, text]}
    raise _NotPlainError


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decoded(part) for part in content)
    if kind == "dict":
        return {_decoded(key): _decoded(part) for key, part in content}
    dtype, shape, text = content
    flat = np.frombuffer(base64.b64decode(text), dtype).copy()
    return flat[0] if shape is None else flat.reshape(shape)
