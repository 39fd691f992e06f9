"""The kinds of values that options take: how each is read, written and checked. Pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matex.config.compressions import COMPRESSIONS, compression_of
from matex.config.durations import duration_s, duration_text
from matex.config.monitored import monitored
from matex.config.named_arguments import named_arguments

__all__ = [
    "COMPRESSION",
    "FINITE",
    "KINDS",
    "MONITOR",
    "OPTIMIZER",
    "PATH",
    "SWITCH",
    "TIME",
    "WORDS",
    "Kind",
]


@dataclass(frozen=True)
class Kind:
    """A kind of option value.

    Args:
        wanted: noun for messages, such as "a whole number".
        read: function from text to a value; raises ValueError for text of another form.
        take: function from a program's value to an option value; raises TypeError or ValueError for
            another type.
        write: function from a value to text, from which *read* makes the same value, or a slightly
            larger one.
    """

    wanted: str
    read: Callable[[str], Any]
    take: Callable[[Any], Any]
    write: Callable[[Any], str] = str


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, str | bool):
        raise TypeError
    return float(value)


def _finite(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _compression(value: Any) -> str:
    text = _word(value)
    compression_of(text)
    return text


def _optimizer(value: Any) -> str:
    """Name of an optimizer, followed by its arguments."""
    text = _word(value)
    named_arguments(text)
    return text


def _monitor(value: Any) -> str:
    text = _word(value)
    monitored(text)
    return text


def _switch(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError
    return bool(value)


def _path_of(text: str) -> Path:
    if not text:
        raise ValueError
    return Path(text)


def _path(value: Any) -> Path:
    return value if isinstance(value, Path) else _path_of(_word(value))


def _words(value: Any) -> tuple[str, ...]:
    return tuple(value.split() if isinstance(value, str) else map(_word, value))


def _time(value: Any) -> float:
    """Seconds; 0 stands for no time at all, which only a program can say."""
    seconds = duration_s(value) if isinstance(value, str) else _number(value)
    if not seconds >= 0:
        raise ValueError
    return seconds


SWITCH = Kind("0 or 1", lambda text: _switch(int(text)), _switch, lambda value: str(int(value)))
PATH = Kind("a path", _path_of, _path, lambda value: str(value.absolute()))
WORDS = Kind("texts, with blanks between them", _words, _words, " ".join)
COMPRESSION = Kind(
    f"one of {', '.join(row.wanted for row in COMPRESSIONS.values())}",
    _compression,
    _compression,
)
OPTIMIZER = Kind(
    "an optimizer, with arguments as in adam:learning_rate=0.01,amsgrad=true",
    _optimizer,
    _optimizer,
)
MONITOR = Kind(
    "the name of a value in the logs, after max: where the highest is the best", _monitor, _monitor
)
TIME = Kind("a time HH:MM:SS above zero", duration_s, _time, duration_text)

FINITE = Kind("a finite number", lambda text: _finite(float(text)), _finite)

#: The kind of an option whose field has this type.
KINDS: dict[Any, Kind] = {
    int: Kind("a whole number", int, _whole),
    float: Kind("a number", float, _number),
    str: Kind("a text", str, _word),
    bool: SWITCH,
    Path: PATH,
    tuple[str, ...]: WORDS,
}
