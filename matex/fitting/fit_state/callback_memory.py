"""State of the callbacks of a fit among the arrays of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from matex import keras_hooks

__all__ = ["callbacks_held", "restore_callbacks"]

_CALLBACKS = "callbacks/"


def callbacks_held(callbacks: list[Any]) -> dict[str, np.ndarray]:
    """Copies of the state of *callbacks*, by their names in a checkpoint. Local."""
    memory = keras_hooks.callback_state(callbacks)
    return {f"{_CALLBACKS}{name}": value for name, value in memory.items()}


def restore_callbacks(
    callbacks: list[Any],
    extra: Mapping[str, np.ndarray],
    *,
    keeping: Callable[[Any], bool] = lambda value: False,
    as_scripted: bool = False,
) -> list[str]:
    """Restore the state of *callbacks*. Local.

    Args:
        callbacks: callbacks of the same kinds in the same order as those whose state was held.
        extra: arrays of the checkpoint, by name.
        keeping: whether a present value is left unchanged. By default none is.
        as_scripted: whether what training has not changed is left unchanged: right where a job
            was started again, and not on a rank that joins the others. By default it is not.

    Returns:
        Words for what begins anew, none where all could be kept.
    """
    names = {key[len(_CALLBACKS) :]: key for key in extra if key.startswith(_CALLBACKS)}
    memory = {name: extra[key] for name, key in names.items()}
    return keras_hooks.restore_callback_state(
        callbacks, memory, keeping=keeping, as_scripted=as_scripted
    )
