"""A model that BackupAndRestore has restored on the leader, for all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.checkpointing import model_state

__all__ = ["share_restored"]


def share_restored(
    communicator: ft.Communicator, model: Any, restore: Callable[[], None], *, initial_epoch: int
) -> int:
    """Restore *model* on the leader, and give it to all ranks; return its epoch; collective.

    If the leader dies before all have the whole of it, the next leader restores it again.

    Args:
        restore: local function of BackupAndRestore.
        initial_epoch: argument of ``fit``.
    """
    rank = b"%d" % communicator.world.rank

    def restored() -> bytes:
        restore()
        return rank

    while True:
        sender = ft.one_answer(communicator, restored)
        keras_hooks.build_optimizer(model)  # reading a file has built the sender's
        model_state.broadcast(communicator, model)
        epoch = np.array([keras_hooks.first_epoch(model, initial_epoch)], np.int64)
        communicator.broadcast(epoch)
        if ft.one_answer(communicator, lambda: rank) == sender:
            return int(epoch[0])
