"""The layers of BatchNormalization that normalise by the rows of all ranks."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.run.context import RunContext

__all__ = ["normalized_alone", "synchronized"]


def synchronized(run: RunContext, model: Any) -> list[Any]:
    """The layers of *model* whose moments are summed over the ranks; none on one rank. Local.

    All of them with ``--sync-batchnorm``, else those that are made with ``synchronized=True``.
    """
    if run.communicator.initial_size == 1 or run.config.strategy != "sync":
        return []
    return keras_hooks.normalizations(model, asking=not run.config.sync_batchnorm)


def normalized_alone(model: Any, synchronized: list[Any]) -> int:
    """The number of layers of *model* that train, and normalise by a part of the batch. Local.

    Args:
        model: built.
        synchronized: layers of :func:`synchronized`.
    """
    trained = [layer for layer in keras_hooks.normalizations(model) if layer.trainable]
    return sum(all(layer is not other for other in synchronized) for layer in trained)
