"""Values from the codes of ``plain_values``, put where such values are."""

from __future__ import annotations

import base64
import collections
from collections.abc import Iterable
from typing import Any

import numpy as np

from matex.keras_hooks.callback_state import random_states
from matex.keras_hooks.callback_state.plain_values import ABSENT, FACTORIES, MAPPINGS, NotPlainError
from matex.keras_hooks.callback_state.small_values import small_value

__all__ = ["Decoder"]


class Decoder:
    """Makes values, with their types, of what a
    :class:`matex.keras_hooks.callback_state.plain_values.Coder` wrote.

    A list, dict, set, deque or array that is present gets the content, for the script may hold it,
    too; each one once.
    """

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._parts = {"": self._made}
        self._used: dict[int, tuple[Any, Any]] = {}  # what was present, with its former content

    def begin(self, part: str) -> None:
        """Begin a *part*, to which others may refer by this name."""
        self._made = self._parts[part] = []

    def other(self, kind: str, content: Any, present: Any) -> Any:
        """The value of a *kind* that is not plain: none here.

        Raises:
            NotPlainError: always.
        """
        raise NotPlainError(kind)

    def value(self, code: Any, present: Any = ABSENT) -> Any:
        """The value of *code*, in *present* if that is of its type."""
        if isinstance(code, list):
            return self._filled([], list.append, code, present)
        if not isinstance(code, dict):
            return code
        ((kind, content),) = code.items()
        if kind == "again":
            part, place = content if isinstance(content, list) else (None, content)
            made = self._made if part is None else self._parts.get(part, [])
            return made[place] if place < len(made) else self.other(kind, content, present)
        if kind == "tuple":
            return tuple(self.value(one, _at(present, i)) for i, one in enumerate(content))
        if kind == "deque":
            empty: Any = collections.deque(maxlen=content[0])
            return self._filled(empty, collections.deque.append, content[1], present)
        if kind == "array":
            dtype, shape, text = content
            flat = np.frombuffer(base64.b64decode(text), dtype).copy()
            return flat[0] if shape is None else self._array_in(present, flat.reshape(shape))
        if kind == "random":
            place = len(self._made)
            self._noted(None)
            name, state, seeds = (self.value(part) for part in content)
            self._made[place] = random_states.made_random(name, state, seeds, present)
            return self._made[place]
        if kind in MAPPINGS:
            return self._mapping(kind, content, present)
        if kind == "set":
            return self._filled(set(), set.add, content, present)
        if kind == "bytearray":
            return self._noted(bytearray(base64.b64decode(content)))
        if kind == "frozenset":
            return frozenset(self.value(one) for one in content)
        if kind == "bytes":
            return base64.b64decode(content)
        small = small_value(kind, content)
        return self.other(kind, content, present) if small is None else small

    def _mapping(self, kind: str, content: Any, present: Any) -> Any:
        made: Any = MAPPINGS[kind]()
        if kind == "defaultdict":
            factory, content = content
            made.default_factory = FACTORIES[factory]
        there = dict(present) if isinstance(present, dict) else {}
        made = self._noted(self._place_for(made, present))
        made.clear()
        for key, part in content:
            name = self.value(key)
            made[name] = self.value(part, there.get(name, ABSENT))
        return made

    def _filled(self, made: Any, append: Any, parts: Iterable[Any], present: Any) -> Any:
        there = list(present) if isinstance(present, list | tuple | collections.deque) else []
        made = self._noted(self._place_for(made, present))
        made.clear()
        for place, part in enumerate(parts):
            append(made, self.value(part, _at(there, place)))
        return made

    def _array_in(self, present: Any, array: np.ndarray) -> np.ndarray:
        kinds = type(present), getattr(present, "dtype", None), getattr(present, "shape", None)
        if kinds != (np.ndarray, array.dtype, array.shape) or not present.flags.writeable:
            return self._noted(array)
        made: np.ndarray = self._noted(self._place_for(array, present))
        made[...] = array
        return made

    def _place_for(self, made: Any, present: Any) -> Any:
        """The container *present*, if it is like *made* and has no content yet, else *made*."""
        options = [getattr(made, name, None) for name in ("maxlen", "default_factory")]
        there = [getattr(present, name, None) for name in ("maxlen", "default_factory")]
        if type(present) is not type(made) or there != options or id(present) in self._used:
            return made
        self._used[id(present)] = present, present.copy()
        return present

    def _put_back(self, used: int) -> None:
        """Give what was present, but for the first *used*, its former content again."""
        while len(self._used) > used:
            present, before = self._used.popitem()[1]
            if isinstance(present, np.ndarray):
                present[...] = before
                continue
            present.clear()
            fill = present.update if isinstance(present, dict | set) else present.extend
            fill(before)

    def _noted(self, made: Any) -> Any:
        self._made.append(made)
        return made


def _at(present: Any, place: int) -> Any:
    """The part of *present* at *place*, if it has one."""
    if isinstance(present, list | tuple | collections.deque) and place < len(present):
        return present[place]
    return ABSENT
