"""One hash of all models that a script has trained; ranks compare it at the script's end."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state

__all__ = ["MOST", "TrainedModels"]

#: So many of the newest models are kept alive until the end; of older ones a hash is kept.
MOST = 8

Variables = Callable[[], list[Any]]


class TrainedModels:
    """The trained models, loops and optimizers of one process. Local, and alike on all ranks.

    A search over hundreds of models must not hold them all in memory: when a further one is
    trained, the one whose training began first counts with the values that it has by then.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], Variables] = {}
        self._owners: dict[tuple[int, ...], list[weakref.ref[Any]]] = {}
        self._digests: list[str] = []

    def __len__(self) -> int:
        return len(self._digests) + len(self._kept)

    def remember(self, *owners: Any, variables: Variables) -> None:
        """*variables* gives what is trained; *owners* are the objects that it belongs to.

        It is known already where it was given with the same objects before.
        """
        key = tuple(map(id, owners))
        known = self._owners.get(key)
        if known is not None and all(
            ref() is not None for ref in known
        ):  # ids of the dead are reused
            return
        while len(self._kept) >= MOST:
            oldest = self._kept.pop(next(iter(self._kept)))
            with keras_hooks.outside_graphs():  # values are read while a function is traced, too
                self._digests.append(model_state.weights_hash(oldest()))
        self._kept[key] = variables
        self._owners[key] = [weakref.ref(owner) for owner in owners]

    def variables(self) -> list[list[Any]]:
        """The variables of what is kept, in the order in which their training began."""
        return [list(some()) for some in self._kept.values()]

    def digest(self) -> str | None:
        """64 bits over all values, as 16 hexadecimal digits; None where nothing was trained."""
        if not len(self):
            return None
        variables = (variable for some in self._kept.values() for variable in some())
        return model_state.weights_hash(variables, after=self._digests)
