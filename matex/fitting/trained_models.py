"""Hash of all models that a script has trained, compared by ranks at the script's end."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state

__all__ = ["MOST", "TrainedModels"]

#: Number of newest models kept alive until the end; of older ones a hash is kept.
MOST = 8

Variables = Callable[[], list[Any]]


class TrainedModels:
    """Trained models, loops and optimizers of one process. Local, equal on all ranks.

    A search over hundreds of models must not hold them all in memory: when another one is trained,
    the model whose training began first is hashed with its current values, and dropped.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], Variables] = {}
        self._owners: dict[tuple[int, ...], list[weakref.ref[Any]]] = {}
        self._digests: list[str] = []

    def __len__(self) -> int:
        return len(self._digests) + len(self._kept)

    def remember(self, *owners: Any, variables: Variables) -> None:
        """Remember *variables*, a function that returns trained ones, and the *owners* of these.

        Objects that were remembered together before are ignored.
        """
        key = tuple(map(id, owners))
        known = self._owners.get(key)
        if known is not None and all(
            ref() is not None for ref in known
        ):  # ids of deleted objects are reused
            return
        while len(self._kept) >= MOST:
            oldest = self._kept.pop(next(iter(self._kept)))
            with keras_hooks.outside_graphs():  # values are read while a function is traced, too
                self._digests.append(model_state.weights_hash(oldest()))
        self._kept[key] = variables
        self._owners[key] = [weakref.ref(owner) for owner in owners]

    def variables(self) -> list[list[Any]]:
        """Variables of the kept objects, in the order in which their training began."""
        return [list(some()) for some in self._kept.values()]

    def digest(self) -> str | None:
        """Hash of all values, 64 bits as 16 hexadecimal digits; None if nothing was trained."""
        if not len(self):
            return None
        variables = (variable for some in self._kept.values() for variable in some())
        return model_state.weights_hash(variables, after=self._digests)
