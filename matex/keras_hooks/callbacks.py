"""What Keras's callbacks remember from epoch to epoch, as far as it decides about training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

__all__ = ["add_epochs", "history_of", "memory_of", "remember", "set_history"]

_LIST = "best_weights"

# On the history of a rank that joined: the numbers of the epochs before.
_BEFORE = "matex_before"

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


def history_of(model: Any, *, ended: tuple[int, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The logs of the running fit's epochs so far, fit for JSON; local.

    Args:
        ended: an epoch and its logs, where Keras is about to note them.
    """
    history = model.history
    logs = {name: [_number(value) for value in values] for name, values in history.history.items()}
    epochs = _epochs(history)
    if ended is not None:
        epochs.append(ended[0])
        for name, value in ended[1].items():
            logs.setdefault(name, []).append(_number(value))
    return {"epoch": epochs, "logs": logs}


def set_history(model: Any, told: Mapping[str, Any]) -> None:
    """Let the running fit have had the epochs that :func:`history_of` told; local.

    Keras forgets their numbers when training begins: see :func:`add_epochs`.
    """
    model.history.history = {name: list(values) for name, values in told["logs"].items()}
    setattr(model.history, _BEFORE, list(told["epoch"]))


def add_epochs(model: Any) -> None:
    """After that fit: put those numbers before its own; local."""
    model.history.epoch = _epochs(model.history)
    delattr(model.history, _BEFORE)


def _epochs(history: Any) -> list[int]:
    return [*getattr(history, _BEFORE, ()), *history.epoch]


def _number(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value).tolist()


def _deciding(callbacks: Iterable[Any]) -> Iterable[tuple[str, Any, tuple[str, ...]]]:
    counts: dict[str, int] = {}
    for callback in callbacks:
        for kind, attributes in _MEMORY.items():
            if isinstance(callback, kind):
                number = counts[kind.__name__] = counts.get(kind.__name__, -1) + 1
                yield f"{kind.__name__}-{number}", callback, attributes
