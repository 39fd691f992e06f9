"""Optimizers that a fit has built before its first step, in which plain Keras builds them.

Before that step a callback may save weights, to go back to them later, or read a file. In plain
Keras the optimizer has no slots then: the file is without them, reading it later leaves the
optimizer alone, and so does reading a file with slots now. A callback may also freeze layers or
thaw some. A fit of ranks builds the optimizer as it begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from matex.keras_hooks.building import build_optimizer, was_given
from matex.keras_hooks.optimizers import optimizers_of

__all__ = ["as_unbuilt", "building", "now_built"]

# Optimizer -> the variables that it had before.
_early: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
# Optimizer -> the variables of its model that would train.
_would_train: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


def _parts(optimizer: Any) -> list[Any]:
    """*optimizer* and the one that it surrounds, where it does."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return [part for part in (optimizer, inner) if part is not None]


@contextlib.contextmanager
def building(model: Any) -> Iterator[None]:
    """Note which optimizers of *model* are built inside, until :func:`now_built`. Local."""
    every = [part for optimizer in optimizers_of(model) for part in _parts(optimizer)]
    before = [(part, list(part.variables)) for part in every if not part.built]
    yield
    _early.update((part, variables) for part, variables in before if part.built)
    if before and was_given(model.optimizer):
        _would_train[model.optimizer] = list(model.trainable_variables)


def now_built(model: Any) -> None:
    """Drop the note: in plain Keras the optimizers of *model* have their slots by now, too. Local.

    The only optimizer is built anew if other weights are trained than when it was built.
    """
    if not _early:
        return
    optimizers, optimizer = optimizers_of(model), model.optimizer
    every = [part for one in optimizers for part in _parts(one)]
    before = {part: _early.pop(part) for part in every if part in _early}
    if not before or len(optimizers) > 1:
        return
    now = model.trainable_variables
    built_for = optimizer._trainable_variables
    then = {id(variable) for variable in _would_train.pop(optimizer, built_for)}
    if then != {id(variable) for variable in now}:
        given = {id(variable) for variable in built_for}
        # A step of the script's may give it a part of them; what has been thawed is new to it.
        variables = [one for one in now if id(one) in given or id(one) not in then]
        for part, own in before.items():
            part._variables = own
            part._trainable_variables_indices.clear()
            part.built = False
        build_optimizer(model, variables)


class _Unbuilt:
    """An optimizer with the variables that it had before it was built."""

    def __init__(self, optimizer: Any, variables: list[Any]) -> None:
        self._optimizer = optimizer
        self.variables = variables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def as_unbuilt(original: Callable[..., Any], optimizer: Any, store: Any) -> Any:
    """Save, or read, what *optimizer* has in plain Keras by now; *original* is Keras's method."""
    variables = _early.get(optimizer)
    return original(optimizer if variables is None else _Unbuilt(optimizer, variables), store)
