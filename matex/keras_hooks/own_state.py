"""State of the callbacks of a user's classes, and what of it begins anew when it is restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from matex.keras_hooks import plain_values
from matex.keras_hooks.function_state import FunctionState
from matex.keras_hooks.large_arrays import LargeArrays
from matex.keras_hooks.own_objects import OwnStateCoder, OwnStateDecoder

__all__ = ["fit_begins", "own_state", "restore_own_state"]

_OWN, _LOST, _FUNCTIONS = "own", "lost", "functions"


class _Beginning(NamedTuple):
    """State of callbacks as a fit begins, of which only changes are saved."""

    functions: FunctionState
    arrays: LargeArrays


_of_fit: list[_Beginning] = []  # of the fit that began last


def fit_begins(callbacks: Iterable[Any]) -> None:
    """Note that a fit with these *callbacks* begins."""
    callbacks = list(callbacks)
    arrays = LargeArrays(callback for _, callback in _owned(callbacks))
    _of_fit[:] = [_Beginning(FunctionState(callbacks), arrays)]


def own_state(callbacks: Iterable[Any]) -> dict[str, np.ndarray]:
    """Copies of the state of those *callbacks* that are of a user's classes, by name; local."""
    callbacks = list(callbacks)
    coder = OwnStateCoder(callbacks, [fit.arrays for fit in _of_fit])
    found: dict[str, np.ndarray] = {}
    for name, callback in _owned(callbacks):
        found[f"{name}/{_OWN}"] = coder.packed(name, callback)
        if coder.lost:
            found[f"{name}/{_LOST}"] = plain_values.as_bytes(coder.lost)
    for fit in _of_fit:
        found[_FUNCTIONS] = fit.functions.changed()
    return found


def restore_own_state(
    callbacks: Iterable[Any],
    memory: Mapping[str, np.ndarray],
    *,
    keeping: Callable[[Any], bool],
) -> list[str]:
    """Restore what :func:`own_state` returned, and tell what begins anew, in words; local.

    Args:
        keeping: function that tells whether a present value is left unchanged.
    """
    callbacks = list(callbacks)
    coder = OwnStateCoder(callbacks, [fit.arrays for fit in _of_fit])
    decoder = OwnStateDecoder(keeping)
    if _FUNCTIONS in memory:
        FunctionState(callbacks).restore(memory[_FUNCTIONS], keeping)
    anew: dict[str, None] = {}
    for name, callback in _owned(callbacks):
        content, lost = memory.get(f"{name}/{_OWN}"), memory.get(f"{name}/{_LOST}")
        names = [] if lost is None else plain_values.from_bytes(lost)
        if content is not None:
            known = {*plain_values.from_bytes(content), *(one.partition(" ")[0] for one in names)}
            names += _unknown(callback, coder.packed(name, callback), known)
            decoder.restore(name, callback, content)
            names += decoder.lost
        kind = type(callback).__name__
        anew |= dict.fromkeys(f"attribute {one} of the callback {kind}" for one in names)
    return list(anew)


def _unknown(callback: Any, present: np.ndarray, known: set[str]) -> list[str]:
    """Attributes that can be kept, and are not *known* to a file, such as an older one."""
    return [
        f"{name} ({type(vars(callback)[name]).__name__})"
        for name, code in plain_values.from_bytes(present).items()
        if isinstance(code, dict | list) and name not in known
    ]


def _owned(callbacks: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Callbacks of user classes, with names that follow from their order."""
    counts: dict[str, int] = {}
    for callback in callbacks:
        kind = type(callback)
        if kind.__module__.partition(".")[0] in ("keras", "matex"):
            continue
        number = counts[kind.__name__] = counts.get(kind.__name__, -1) + 1
        yield f"{kind.__name__}-{number}", callback
