"""What Keras's callbacks remember from epoch to epoch, as far as it decides about training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

__all__ = ["memory_of", "remember"]

_LIST = "best_weights"

# Class -> attributes: numbers or None, and for EarlyStopping the list of best weights.
_MEMORY: dict[type, tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: ("wait", "stopped_epoch", "best", "best_epoch", _LIST),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best",),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}


def memory_of(callbacks: Iterable[Any]) -> dict[str, np.ndarray]:
    """By name what those of *callbacks* that decide remember; copies, local."""
    found: dict[str, np.ndarray] = {}
    for name, callback, attributes in _deciding(callbacks):
        for attribute in attributes:
            value = getattr(callback, attribute, None)  # some are made when training begins
            if attribute == _LIST:
                parts = {f"{_LIST}/{i}": np.array(part) for i, part in enumerate(value or ())}
            else:
                parts = {} if value is None else {attribute: np.array(value)}
            found.update((f"{name}/{key}", array) for key, array in parts.items())
    return found


def remember(callbacks: Iterable[Any], memory: Mapping[str, np.ndarray]) -> None:
    """Give it back to callbacks of the same kinds in the same order; local.

    What has no counterpart in *memory* stays as it is.
    """
    for name, callback, attributes in _deciding(callbacks):
        mine = {
            key[len(name) + 1 :]: value
            for key, value in memory.items()
            if key.startswith(f"{name}/")
        }
        for attribute in attributes:
            if attribute in mine:
                setattr(callback, attribute, mine[attribute].item())
        weights = [mine[key] for key in mine if key.startswith(f"{_LIST}/")]
        if weights:
            setattr(callback, _LIST, weights)


def _deciding(callbacks: Iterable[Any]) -> Iterable[tuple[str, Any, tuple[str, ...]]]:
    counts: dict[str, int] = {}
    for callback in callbacks:
        for kind, attributes in _MEMORY.items():
            if isinstance(callback, kind):
                number = counts[kind.__name__] = counts.get(kind.__name__, -1) + 1
                yield f"{kind.__name__}-{number}", callback, attributes
