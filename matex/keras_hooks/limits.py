"""Keras settings that a script may change after matex has loaded Keras."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras

from matex.errors import InputError

__all__ = ["most_epochs", "most_steps", "watch_environment"]

_SETTERS = {
    "KERAS_MAX_EPOCHS": "set_max_epochs",
    "KERAS_MAX_STEPS_PER_EPOCH": "set_max_steps_per_epoch",
}


def most_epochs(epochs: int) -> int:
    """Number of epochs that Keras makes for *epochs* in fit. Local."""
    return min(epochs, _limit("max_epochs") or epochs)


def most_steps(steps: int | None) -> int | None:
    """Number of steps that Keras makes for *steps* per epoch or pass. Local."""
    limit = _limit("max_steps_per_epoch")
    return min(limit, steps or limit) if limit else steps


def _limit(name: str) -> int | None:
    get: Callable[[], Any] = getattr(keras.config, name, lambda: None)  # since Keras 3.11
    return get() or None


def watch_environment() -> None:
    """Follow the variables for Keras that the script sets from now on; once, local.

    Keras reads it when it is imported, which a script does after having written, but matex has
    imported it before.

    The script gets an InputError in the line that asks for another backend.
    """
    sys.addaudithook(_heed)


def _heed(event: str, given: tuple[Any, ...]) -> None:
    if event != "os.putenv":
        return
    name, value = (part.decode(errors="replace") for part in given)
    if name == "KERAS_BACKEND" and value.lower() != "tensorflow":
        raise InputError(
            "matex shares the training of Keras on TensorFlow. Received: KERAS_BACKEND="
            f"{value!r}, set by the script; delete that line, or run the script without matex"
        )
    if name in _SETTERS and value.isdigit() and hasattr(keras.config, _SETTERS[name]):
        getattr(keras.config, _SETTERS[name])(int(value) or None)
