"""State that functions of callbacks keep outside: in globals and closures of the script.

A function given to ``LambdaCallback`` has no other place, and methods of the script's classes may
use one. What has changed since a fit began is the callbacks' doing, for no other code of the script
runs meanwhile; constants are left alone.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from matex.keras_hooks.callback_state import plain_values, stateless
from matex.keras_hooks.callback_state.plain_decoder import Decoder
from matex.keras_hooks.script_modules import is_script_module

__all__ = ["FunctionState"]


class _Outside(NamedTuple):
    """A global or a cell of a closure, with its value."""

    value: Any
    put: Callable[[Any], None]


class FunctionState:
    """State that functions of *callbacks* keep outside, since the object was made. Local.

    Args:
        callbacks: callbacks of a fit that begins.
    """

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._callbacks = list(callbacks)
        self._before = {name: _digest(code) for name, code in self._codes()}

    def changed(self) -> np.ndarray:
        """Values that have changed since, as bytes."""
        now = {n: code for n, code in self._codes() if self._before.get(n) != _digest(code)}
        return plain_values.as_bytes(now)

    def restore(self, content: np.ndarray, keeping: Callable[[Any], bool]) -> None:
        """Put what :meth:`changed` returned where it was.

        Args:
            keeping: function that tells whether a present value is left unchanged.
        """
        places = dict(self._places())
        for name, code in plain_values.from_bytes(content).items():
            place = places.get(name)
            if place is not None and not keeping(place.value):
                place.put(Decoder().value(code, place.value))

    def _codes(self) -> Iterator[tuple[str, Any]]:
        for name, place in self._places():
            code = stateless.code_of_kept(place.value)
            if code is not plain_values.ABSENT:
                yield name, code

    def _places(self) -> Iterator[tuple[str, _Outside]]:
        seen: set[int] = set()
        names: dict[str, int] = {}
        waiting = [function for one in self._callbacks for function in _functions_of(one)]
        while waiting:
            function = waiting.pop(0)
            if id(function) in seen:
                continue
            seen.add(id(function))
            for name, place in _places_in(function):
                # Two functions may have one name; globals are one, whoever uses them.
                number = names[name] = names.get(name, -1) + 1
                yield f"{name}:{number}" if name.count(":") > 1 else name, place
                if isinstance(place.value, types.FunctionType):
                    waiting += filter(_is_scripts, [place.value])


def _functions_of(callback: Any) -> Iterator[types.FunctionType]:
    """Functions of the script among the methods and attributes of *callback*."""
    held = list(vars(callback).values())
    held += [one for kind in type(callback).__mro__ for one in vars(kind).values()]
    for one in held:
        inner = getattr(one, "func" if isinstance(one, functools.partial) else "__func__", one)
        found = one.fget if isinstance(one, property) else inner
        if isinstance(found, types.FunctionType) and _is_scripts(found):
            yield found


def _is_scripts(function: types.FunctionType) -> bool:
    return is_script_module(function.__module__ or "")


def _places_in(function: types.FunctionType) -> Iterator[tuple[str, _Outside]]:
    code, there = function.__code__, function.__globals__
    for name in sorted({*_names_in(code)} & there.keys()):
        put = functools.partial(there.__setitem__, name)
        yield f"{function.__module__}:{name}", _Outside(there[name], put)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        put = functools.partial(setattr, cell, "cell_contents")
        yield f"{function.__module__}:{function.__qualname__}:{name}", _Outside(value, put)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes in *code* and the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _digest(code: Any) -> bytes:
    return hashlib.blake2b(plain_values.as_bytes(code).tobytes(), digest_size=16).digest()
