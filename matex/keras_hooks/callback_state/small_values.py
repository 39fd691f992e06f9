"""Values of Python that cannot be changed and hold no others, as what JSON can hold. Pure."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable
from typing import Any

__all__ = ["small_code", "small_value"]

_TIMES = {kind.__name__: kind for kind in (datetime.datetime, datetime.date, datetime.time)}
_PATHS = {
    kind.__name__: kind
    for kind in (pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)
}


def small_code(value: Any) -> dict[str, list[Any]] | None:
    """The code of a complex number, a range, a time or a path; None of other values."""
    kind = type(value)
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is range:
        return {"range": [value.start, value.stop, value.step]}
    if kind is datetime.timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if kind in _TIMES.values():
        text = value.isoformat()
        # A named time zone and the second of two equal hours do not stand in the text.
        if repr(kind.fromisoformat(text)) == repr(value):
            return {"time": [kind.__name__, text]}
    return {"path": [kind.__name__, str(value)]} if kind in _PATHS.values() else None


def small_value(kind: str, content: list[Any]) -> Any:
    """The value of a code; None of another kind than those of :func:`small_code`."""
    made = _MADE.get(kind)
    return None if made is None else made(*content)


_MADE: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "range": range,
    "timedelta": datetime.timedelta,
    "time": lambda name, text: _TIMES[name].fromisoformat(text),
    "path": lambda name, text: _PATHS[name](text),
}
