"""Kinds of objects that hold no state of a callback, and those that the script's classes make."""

from __future__ import annotations

import abc
import argparse
import contextlib
import dis
import functools
import logging
import random
import re
import threading
import types
import typing
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from matex.keras_hooks import tensors
from matex.keras_hooks.callback_state import plain_values
from matex.keras_hooks.script_modules import is_script_module

__all__ = [
    "code_of_kept",
    "is_callback",
    "is_no_state",
    "is_of_script",
    "keeps_something",
]

_NO_STATE: tuple[type, ...] = (
    np.dtype,
    np.ufunc,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.ModuleType,
    types.CodeType,
    argparse.Namespace,
    types.GenericAlias,
    functools.partial,
    staticmethod,
    classmethod,
    property,
    type,
    type(Ellipsis),
    type(NotImplemented),
    logging.Logger,
    logging.LoggerAdapter,
    logging.Handler,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    re.Pattern,
    weakref.ref,
)
_CHANGING: tuple[type, ...] = (
    list,
    dict,
    set,
    bytearray,
    deque,
    random.Random,
    np.random.Generator,
    np.random.RandomState,
)
_SIMPLE = (bool, int, float, str, type(None))
_CONTAINERS = (list, set, deque, *plain_values.MAPPINGS.values())
_RANDOM = (random.Random, np.random.Generator, np.random.RandomState)
_MOST_ENTRIES, _MOST_BYTES = 10_000, 4 << 20  # containers with more are taken to be data
_ABSTRACT = (object, abc.ABC, typing.Generic, typing.Protocol)


def is_no_state(value: Any) -> bool:
    """Whether *value* is plainly no state of a callback that holds it."""
    return (
        isinstance(value, _NO_STATE)
        or tensors.is_of_training(value)
        or type(value).__module__.partition(".")[0] == "matex"
        or _is_frozen(type(value))
    )


def is_callback(value: Any) -> bool:
    """Whether *value* is of a class that inherits Keras's callback."""
    return any(map(_is_keras_callback, type(value).__mro__))


def is_of_script(kind: type) -> bool:
    """Whether *kind* and the classes it inherits are the script's, with their state in a dict."""
    if kind is types.SimpleNamespace:
        return True
    own = [base for base in kind.__mro__ if base not in _ABSTRACT and not _is_keras_callback(base)]
    return (
        bool(own)
        and bool(getattr(kind, "__dictoffset__", 0))
        and not any(vars(base).get("__slots__") for base in own)
        and all(is_script_module(base.__module__) for base in own)
    )


class _SmallCoder(plain_values.Coder):
    """Coder of what is no data."""

    def spend(self, nbytes: int) -> None:
        """Count the bytes of a value.

        Raises:
            NotPlainError: there are too many.
        """
        super().spend(nbytes)
        if self.spent > _MOST_BYTES:
            raise plain_values.NotPlainError("too large")


def code_of_kept(value: Any) -> Any:
    """The code of a *value* that a function uses outside, `ABSENT` if it is not kept there."""
    if type(value) in _CONTAINERS:
        few = len(value) <= _MOST_ENTRIES
    else:
        few = type(value) in (*_SIMPLE, *_RANDOM)
    if few:
        with contextlib.suppress(plain_values.NotPlainError):
            return _SmallCoder().whole(value)
    return plain_values.ABSENT


def keeps_something(function: Any) -> bool:
    """Whether a *function* may change what is not kept: by what it names, not by a trial."""
    if isinstance(function, functools.partial):
        given = [*function.args, *function.keywords.values()]
        return any(map(_changes, given)) or keeps_something(function.func)
    if isinstance(function, types.BuiltinMethodType):  # such as the append of a list
        return isinstance(function.__self__, _CHANGING)
    if isinstance(function, types.MethodType):
        owner = type(function.__self__)
        return is_of_script(owner) and not is_no_state(function.__self__)
    if not isinstance(function, types.FunctionType):
        return is_of_script(type(function)) and not is_no_state(function)
    return any(_names_what_changes(function))


def _is_frozen(kind: type) -> bool:
    """Whether the instances of *kind* are a dataclass's that cannot be changed."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return bool(getattr(parameters, "frozen", False))


def _is_keras_callback(kind: type) -> bool:
    return kind.__name__ == "Callback" and kind.__module__.partition(".")[0] == "keras"


def _names_what_changes(function: types.FunctionType) -> Iterator[bool]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for step in dis.get_instructions(function.__code__):
        if step.opname == "STORE_GLOBAL":
            yield code_of_kept(function.__globals__.get(step.argval)) is plain_values.ABSENT
        elif step.opname == "LOAD_GLOBAL":
            yield _begins_anew(function.__globals__.get(step.argval))
        elif step.opname == "LOAD_DEREF" and step.argval in cells:
            try:
                yield _begins_anew(cells[step.argval].cell_contents)
            except ValueError:  # not assigned yet
                continue
    yield from map(_changes, function.__defaults__ or ())


def _begins_anew(value: Any) -> bool:
    return _changes(value) and code_of_kept(value) is plain_values.ABSENT


def _changes(value: Any) -> bool:
    if is_no_state(value):
        return False
    return isinstance(value, _CHANGING) or tensors.is_variable(value) or is_of_script(type(value))
