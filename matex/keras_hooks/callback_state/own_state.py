"""State of the callbacks of a user's classes, and what of it begins anew when it is restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from matex.keras_hooks.callback_state import plain_values
from matex.keras_hooks.callback_state.function_state import FunctionState
from matex.keras_hooks.callback_state.large_arrays import LargeArrays
from matex.keras_hooks.callback_state.own_objects import OwnStateCoder, OwnStateDecoder
from matex.keras_hooks.callback_state.settings import Settings

__all__ = ["callbacks_begun", "fit_begins", "own_state", "restore_own_state"]

_OWN, _LOST, _SETTINGS, _FUNCTIONS = "own", "lost", "settings", "functions"


class _Beginning(NamedTuple):
    """State of callbacks as a fit begins, with which later state is compared."""

    functions: FunctionState
    arrays: LargeArrays
    settings: Settings


_of_fit: list[_Beginning] = []  # of the fit that began last


def fit_begins(callbacks: Iterable[Any]) -> None:
    """Note that a fit with these *callbacks* begins."""
    callbacks = list(callbacks)
    owned = [callback for _, callback in _owned(callbacks)]
    settings = Settings(owned, before=_of_fit[0].settings if _of_fit else None)
    _of_fit[:] = [_Beginning(FunctionState(callbacks), LargeArrays(owned), settings)]


def callbacks_begun() -> None:
    """Note that Keras has called ``on_train_begin`` of the callbacks of the fit."""
    for fit in _of_fit:
        fit.settings.exclude_changed()


def own_state(callbacks: Iterable[Any]) -> dict[str, np.ndarray]:
    """Copies of the state of those *callbacks* that are of a user's classes, by name; local."""
    callbacks = list(callbacks)
    coder = OwnStateCoder(callbacks, [fit.arrays for fit in _of_fit])
    found: dict[str, np.ndarray] = {}
    for name, callback in _owned(callbacks):
        found[f"{name}/{_OWN}"] = coder.packed(name, callback)
        if coder.lost:
            found[f"{name}/{_LOST}"] = plain_values.as_bytes(coder.lost)
        if settings := _settings(callback):
            found[f"{name}/{_SETTINGS}"] = plain_values.as_bytes(sorted(settings))
    for fit in _of_fit:
        found[_FUNCTIONS] = fit.functions.changed()
    return found


def restore_own_state(
    callbacks: Iterable[Any],
    memory: Mapping[str, np.ndarray],
    *,
    keeping: Callable[[Any], bool],
    as_scripted: bool = False,
) -> list[str]:
    """Restore what :func:`own_state` returned, and tell what begins anew, in words; local.

    Args:
        keeping: function that tells whether a present value is left unchanged.
        as_scripted: whether settings, which training has not changed, are left unchanged.
    """
    callbacks = list(callbacks)
    coder = OwnStateCoder(callbacks, [fit.arrays for fit in _of_fit])
    decoder = OwnStateDecoder(keeping)
    if _FUNCTIONS in memory:
        FunctionState(callbacks).restore(memory[_FUNCTIONS], keeping)
    anew: dict[str, None] = {}
    for name, callback in _owned(callbacks):
        content, lost = memory.get(f"{name}/{_OWN}"), memory.get(f"{name}/{_LOST}")
        names = _names(lost)
        if content is not None:
            known = {*plain_values.from_bytes(content), *(one.partition(" ")[0] for one in names)}
            names += _unknown(callback, coder.packed(name, callback), known)
            settings = _names(memory.get(f"{name}/{_SETTINGS}")) if as_scripted else []
            decoder.restore(name, callback, content, but=_settings(callback).intersection(settings))
            names += decoder.lost
        kind = type(callback).__name__
        anew |= dict.fromkeys(f"attribute {one} of the callback {kind}" for one in names)
    return list(anew)


def _settings(callback: Any) -> set[str]:
    return {name for fit in _of_fit for name in fit.settings.names(callback)}


def _names(content: np.ndarray | None) -> list[str]:
    return [] if content is None else list(plain_values.from_bytes(content))


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
