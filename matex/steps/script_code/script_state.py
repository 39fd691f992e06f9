"""State that the script keeps in Python, such as a counter, from before a trial of its code.

An eager step is the script's own Python, which a trial runs several times: a loss with a warm-up
counts its calls, a train step appends to a list. What it can reach is put back after each run: the
attributes of the script's objects that belong to the model, their lists, dictionaries, sets and
small arrays, and what their functions name of their modules and closures. State in compiled code,
in files or behind a function of another package is not found.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from matex.keras_hooks.script_modules import is_script_module
from matex.steps.script_code.containers import (
    ABSENT,
    CONTAINERS,
    SIMPLE,
    are_others,
    content_of,
    copied,
    entries_of,
    fill,
    refill,
    same_entries,
)

__all__ = ["ScriptState", "are_same", "is_scripts"]

_ARRAY_BYTES = 4 << 20  # larger arrays are taken to be data
_MOST_ENTRIES = 10_000  # containers with more are copied, and not searched


def is_scripts(thing: type | FunctionType) -> bool:
    """Whether a class or a function is of the script, or of a module beside it."""
    return is_script_module(thing.__module__ or "")


class _StateChange(NamedTuple):
    """Something that has another value than it was noted with."""

    name: str
    now: Any
    put_back: Callable[[], None]
    redo: Callable[[], None]


class ScriptState:
    """State that the script's Python keeps, reached from *root*; local.

    Args:
        root: model, or some objects, from which the script's classes and functions are reached.
        managed: function that returns the names of attributes that are not the script's own on an
            object, such as Keras's ``built``.
        lasts: function that says whether a value stays when it is new, as layers and variables do,
            which are made when they are first used.
        with_keras: whether the attributes of Keras's own objects are part of the state, too. False
            by default.
    """

    def __init__(
        self,
        root: Any,
        managed: Callable[[Any], frozenset[str]],
        lasts: Callable[[Any], bool],
        *,
        with_keras: bool = False,
    ) -> None:
        self._managed, self._lasts, self._with_keras = managed, lasts, with_keras
        self._seen: dict[Any, Any] = {}  # by identity; it holds them, so that none is used anew
        self._attributes: list[tuple[dict[str, Any], dict[str, Any], frozenset[str]]] = []
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._generators: list[tuple[Any, Any]] = []
        self._note_all(root)

    def __bool__(self) -> bool:
        """Whether there is any state of the script's."""
        return bool(self._attributes or self._names or self._cells)

    def renew(self, thing: Any) -> None:
        """Note the attributes of *thing* as they are now, and what is new."""
        own = vars(thing)
        values = {id(value) for value in own.values()}
        self._attributes = [noted for noted in self._attributes if noted[0] is not own]
        self._containers = [noted for noted in self._containers if id(noted[0]) not in values]
        self._arrays = [noted for noted in self._arrays if id(noted[0]) not in values]
        for identity in (id(thing), *values):
            self._seen.pop((identity, False), None)
            self._seen.pop((identity, True), None)
        self._note_all(thing)

    @property
    def changed(self) -> str:
        """Name of something that has another value than it was noted with; "" if nothing has."""
        return next((change.name for change in self._changes()), "")

    def put_back(self) -> list[Any]:
        """Restore the state; return what had been put in its place, in an order of its own."""
        return [change.now for change in self._put_back()]

    @contextlib.contextmanager
    def put_back_within(self) -> Iterator[None]:
        """Context in which the state is as it was noted; after it, all is as before the context."""
        changes = self._put_back()
        try:
            yield
        finally:
            self._put_back()
            for change in changes:
                change.redo()

    def _put_back(self) -> list[_StateChange]:
        changes = [*self._changes()]
        for change in changes:
            change.put_back()
        return changes

    def _changes(self) -> Iterator[_StateChange]:
        for now, before, managed in self._attributes:
            for name in {**before, **now}:
                if name not in managed:
                    yield from self._change(now, name, before.get(name, ABSENT))
        for module, name, value in self._names:
            yield from self._change(module, name, value)
        for cell, old in self._cells:
            new = content_of(cell)
            if are_others(new, old):
                yield _changed("a variable around a function", new, old, partial(fill, cell))
        for container, entries in self._containers:
            if not same_entries(container, entries) and not self._has_new(container, entries):
                kind, now = type(container).__name__, copied(container)
                yield _changed(f"a {kind}", now, entries, partial(refill, container))
        for array, values in self._arrays:
            if array.tobytes() != values.tobytes():
                put = partial(array.__setitem__, ...)
                yield _changed("an array", array.copy(), values, put)

    def _change(self, names: dict[str, Any], name: str, old: Any) -> Iterator[_StateChange]:
        """Change of the value of *name* among *names*, if it is to be put back."""
        new = names.get(name, ABSENT)
        if are_others(new, old) and not (old is ABSENT and self._lasts(new)):
            yield _changed(name, new, old, partial(_assign, names, name))

    def put_back_generators(self) -> None:
        """Restore the random generators of the script's own, which :meth:`put_back` leaves."""
        for generator, state in self._generators:
            if isinstance(generator, random.Random):
                generator.setstate(state)
            else:
                generator.bit_generator.state = state

    def _has_new(self, container: Any, before: Any) -> bool:
        """Whether *container* holds something new that lasts."""
        old = {id(value) for value in entries_of(before)}
        return any(id(v) not in old and self._lasts(v) for v in entries_of(container))

    def _note_all(self, root: Any) -> None:
        left = [(root, False)]
        while left:
            thing, ours = left.pop()
            left.extend(self._note(thing, ours=ours))

    def _note(self, thing: Any, *, ours: bool) -> Iterator[tuple[Any, bool]]:
        """Note the state of *thing*, and yield what is reached from it, and whether that is ours.

        Args:
            ours: whether *thing* was reached from an attribute or a function of the script, and is
                no list or dictionary of Keras's own.
        """
        if isinstance(thing, SIMPLE) or (id(thing), ours) in self._seen:
            return
        self._seen[id(thing), ours] = thing
        if isinstance(thing, np.ndarray):
            if ours and thing.nbytes <= _ARRAY_BYTES and thing.flags.writeable:
                self._arrays.append((thing, thing.copy()))
        elif isinstance(thing, random.Random):
            self._generators.append((thing, thing.getstate()))
        elif isinstance(thing, np.random.Generator):
            self._generators.append((thing, thing.bit_generator.state))
        elif isinstance(thing, tuple | frozenset):
            yield from ((entry, ours) for entry in thing)
        elif isinstance(thing, CONTAINERS):
            if ours:
                self._containers.append((thing, copied(thing)))
            if len(thing) <= _MOST_ENTRIES:
                yield from ((entry, ours) for entry in entries_of(thing))
        elif isinstance(thing, MethodType):
            yield thing.__self__, ours
            yield thing.__func__, ours
        elif isinstance(thing, partial):
            yield from ((part, ours) for part in (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, FunctionType):
            yield from ((value, True) for value in self._note_function(thing))
        elif not isinstance(thing, ModuleType | type):
            yield from self._note_object(thing)

    def _note_function(self, function: FunctionType) -> Iterator[Any]:
        if not is_scripts(function):
            return
        for cell in function.__closure__ or ():
            if id(cell) not in self._seen:
                self._seen[id(cell)] = cell
                self._cells.append((cell, content_of(cell)))
                yield content_of(cell)
        for name in function.__code__.co_names:
            if name in function.__globals__:
                value = function.__globals__[name]
                self._names.append((function.__globals__, name, value))
                yield value
        yield from function.__defaults__ or ()

    def _note_object(self, thing: Any) -> Iterator[tuple[Any, bool]]:
        attributes = getattr(thing, "__dict__", None)
        kind = type(thing)
        of_script = is_scripts(kind)
        if not isinstance(attributes, dict) or not (of_script or _is_of_keras(kind)):
            return
        managed = self._managed(thing)
        if of_script or self._with_keras:
            self._attributes.append((attributes, dict(attributes), managed))
        if of_script:
            for base in kind.__mro__:
                if is_scripts(base):
                    yield from ((function, True) for function in _functions_of(base))
        for name, value in [*attributes.items()]:
            if name not in managed:
                yield value, of_script
            elif not self._with_keras:
                yield value, False


def _is_of_keras(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "keras"


def _functions_of(kind: type) -> Iterator[Any]:
    """Functions in the body of a class, without decorators of Python's own."""
    for value in vars(kind).values():
        bare = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if isinstance(bare, FunctionType):
            yield bare


def _assign(names: dict[str, Any], name: str, value: Any) -> None:
    if value is not ABSENT:
        names[name] = value
    else:
        names.pop(name, None)


def _changed(name: str, now: Any, before: Any, put: Callable[[Any], Any]) -> _StateChange:
    return _StateChange(name, now, partial(put, before), partial(put, now))


def are_same(one: Any, other: Any) -> bool:
    """Whether two lists from :meth:`ScriptState.put_back` hold equal values."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(are_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_same(one[key], other[key]) for key in one)
    if isinstance(one, str | bytes | type(None)) or isinstance(other, str | bytes | type(None)):
        return type(one) is type(other) and bool(one == other)
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    except (TypeError, ValueError):  # no numbers
        return one is other
