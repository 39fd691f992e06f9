"""Widths of a saved model, to which a model that its script has just made is cut."""

from __future__ import annotations

from typing import Any

import checkpoints
from matex.apoptosis.cut import rebuild
from matex.checkpointing import model_state

__all__ = ["cut_as_saved"]


def cut_as_saved(model: Any, saved: checkpoints.Snapshot) -> bool:
    """Cut *model* to the widths that it had in *saved*; local.

    Returns:
        True if there was a layer to cut.
    """
    return rebuild.replay(model, model_state.weights_of(model), saved.extra)
