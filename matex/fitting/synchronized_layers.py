"""Selection of the BatchNormalization layers that normalise over the rows of all ranks."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.run.context import RunContext

__all__ = ["normalized_alone", "synchronized"]


def synchronized(run: RunContext, model: Any) -> list[Any]:
    """Layers of *model* whose moments are summed over the ranks; none on one rank. Local.

    All such layers with ``--sync-batchnorm``, else those constructed with ``synchronized=True``.
    """
    if run.communicator.initial_size == 1 or run.config.strategy != "sync":
        return []
    return keras_hooks.normalizations(model, asking=not run.config.sync_batchnorm)


def normalized_alone(model: Any, synchronized: list[Any]) -> int:
    """Number of trained layers of *model* that normalise over a part of the batch. Local.

    Args:
        model: built model.
        synchronized: result of :func:`synchronized`.
    """
    trained = [layer for layer in keras_hooks.normalizations(model) if layer.trainable]
    return sum(all(layer is not other for other in synchronized) for layer in trained)
