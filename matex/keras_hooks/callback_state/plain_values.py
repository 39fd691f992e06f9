"""Plain Python values and arrays as bytes and back: the state of user callbacks.

Nothing in the bytes is executed when they are read, so they may stand in a checkpoint. A
container or array that is met again is written once, so that it is one object again.
"""

from __future__ import annotations

import base64
import collections
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from matex.keras_hooks.callback_state import random_states
from matex.keras_hooks.callback_state.small_values import small_code

__all__ = [
    "ABSENT",
    "FACTORIES",
    "MAPPINGS",
    "TOO_DEEP",
    "Coder",
    "NotPlainError",
    "as_bytes",
    "fixed_code",
    "from_bytes",
]

#: The present value where there is none.
ABSENT: Any = object()

_SIMPLE = (bool, int, float, str, type(None))
#: What makes the missing values of a ``defaultdict``, by name.
FACTORIES: dict[str, type | None] = {
    "None": None,
    **{kind.__name__: kind for kind in (int, float, str, list, dict, set)},
}
#: Mappings, by name.
MAPPINGS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
}
_CONTAINERS = (list, set, bytearray, collections.deque, *MAPPINGS.values())
#: The reason why a value is not plain that has too many levels.
TOO_DEEP = "too deep"

_LEAST = 8  # bytes that any value is counted with
_DEEPEST = 100  # levels, far from where Python or its JSON end with an error


class NotPlainError(Exception):
    """A value that is not plain, and does not consist of plain values."""


def as_bytes(found: Any) -> np.ndarray:
    """Text of codes as uint8. Pure."""
    return np.frombuffer(json.dumps(found).encode(), np.uint8)


def from_bytes(content: np.ndarray) -> Any:
    """Codes given to :func:`as_bytes`. Pure."""
    return json.loads(content.tobytes())


def fixed_code(value: Any) -> str | None:
    """Text of the code of a *value* that cannot be changed in place; None for others. Pure."""
    try:
        return json.dumps(Coder().key(value))
    except NotPlainError:
        return None


class Coder:
    """Writes values as what JSON can hold. Pure.

    Plain are None, booleans, numbers, strings, bytes, ranges, times, paths, NumPy arrays and
    scalars without objects, random generators, and lists, tuples, dictionaries, sets and the
    containers of :mod:`collections` of plain values.
    """

    def __init__(self) -> None:
        self.spent = 0
        self._depth = 0
        self._part, self._start = "", 0
        self._known: dict[int, tuple[str, int, Any]] = {}

    def begin(self, part: str) -> None:
        """Begin *part*, which the decoder begins as well."""
        self._part, self._start = part, len(self._known)

    def whole(self, value: Any) -> Any:
        """The code of *value*; where it has none, nothing is left of the attempt.

        Raises:
            NotPlainError: *value* is not plain.
        """
        spent, known = self.spent, len(self._known)
        try:
            return self.code(value)
        except NotPlainError:
            self.spent = spent
            while len(self._known) > known:
                self._known.popitem()
            raise

    def other(self, value: Any) -> Any:
        """The code of a *value* that is not plain: none here.

        Raises:
            NotPlainError: always.
        """
        raise NotPlainError(type(value).__name__)

    def spend(self, nbytes: int) -> None:
        """Count the bytes of a value."""
        self.spent += nbytes

    def code(self, value: Any) -> Any:
        """The code of *value*, in parts.

        Raises:
            NotPlainError: it is not plain.
        """
        if self._depth == _DEEPEST:
            raise NotPlainError(TOO_DEEP)
        self._depth += 1
        try:
            return self._code(value)
        finally:
            self._depth -= 1

    def _code(self, value: Any) -> Any:
        kind = type(value)
        if (fixed := self._fixed(value, self.code)) is not ABSENT:
            return fixed
        known = kind in _CONTAINERS or kind is np.ndarray or random_states.is_random(value)
        factory = value.default_factory if kind is collections.defaultdict else None
        if not known or factory not in FACTORIES.values():
            return self.other(value)
        if id(value) in self._known:
            part, place, _ = self._known[id(value)]
            return {"again": place if part == self._part else [part, place]}
        self._known[id(value)] = self._part, len(self._known) - self._start, value
        self.spend(_LEAST * len(value) if kind in _CONTAINERS else _LEAST)
        if kind is np.ndarray:
            return self._array(value)
        if kind is list:
            return [self.code(part) for part in value]
        if kind is dict:
            return {"dict": self._pairs(value)}
        if kind is bytearray:
            return {"bytearray": self._text(value)}
        if kind is set:
            return {"set": self._sorted(value)}
        if kind is collections.deque:
            return {"deque": [value.maxlen, [self.code(part) for part in value]]}
        if kind is collections.defaultdict:
            name = getattr(factory, "__name__", "None")
            return {"defaultdict": [name, self._pairs(value)]}
        if kind in (collections.OrderedDict, collections.Counter):
            return {kind.__name__: self._pairs(value)}
        state = random_states.random_state(value)
        return {"random": [self.code(part) for part in state]}

    def _fixed(self, value: Any, part: Callable[[Any], Any]) -> Any:
        """The code of a *value* that cannot be changed, of others `ABSENT`."""
        kind = type(value)
        self.spend(_LEAST)
        if kind is str:
            self.spend(len(value))
        if kind in _SIMPLE:
            return value
        if kind is tuple:
            return {"tuple": [part(one) for one in value]}
        if kind is frozenset:
            return {"frozenset": self._sorted(value)}
        if kind is bytes:
            return {"bytes": self._text(value)}
        if (small := small_code(value)) is not None:
            return small
        return self._array(value) if isinstance(value, np.generic) else ABSENT

    def key(self, value: Any) -> Any:
        """The code of a *value* that cannot be changed in place, such as a key.

        Raises:
            NotPlainError: it can be changed, or is not plain.
        """
        code = self._fixed(value, self.key)
        if code is ABSENT:
            raise NotPlainError(type(value).__name__)
        return code

    def _sorted(self, values: Iterable[Any]) -> list[Any]:
        """Codes in an order that does not follow from hashes, which differ between processes."""
        codes = [self.key(value) for value in values]
        return sorted(codes, key=None if {*map(type, codes)} in ({int}, {str}) else json.dumps)

    def _pairs(self, values: Mapping[Any, Any]) -> list[Any]:
        return [[self.key(key), self.code(part)] for key, part in values.items()]

    def _array(self, value: Any) -> Any:
        # Of bfloat16 and records NumPy may not know the names.
        if value.dtype.hasobject or value.dtype.kind == "V":
            raise NotPlainError(f"{type(value).__name__} of {value.dtype}")
        shape = list(value.shape) if isinstance(value, np.ndarray) else None
        self.spend(value.nbytes)
        return {"array": [value.dtype.str, shape, _base64(np.ascontiguousarray(value).tobytes())]}

    def _text(self, value: bytes | bytearray) -> str:
        self.spend(len(value))
        return _base64(value)


def _base64(content: bytes | bytearray) -> str:
    return base64.b64encode(content).decode()
