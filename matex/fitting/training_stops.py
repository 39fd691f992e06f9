"""Stops that callbacks of a fit ask for: how all ranks learn of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.whole_batches import WholeBatches
from matex.run.context import RunContext
from matex.run.preemption import checkpoint_and_exit

__all__ = ["TrainingStops"]


class TrainingStops:
    """Makes ``model.stop_training`` of one rank that of all ranks.

    Args:
        run: run of the fit.
        model: model being trained.
        whole: steps of batches that cannot be divided.
        replicated: update of these steps.
        callbacks: callbacks of ``fit``.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        whole: WholeBatches,
        replicated: ReplicatedUpdate,
        callbacks: Any,
    ) -> None:
        self._run = run
        self._model = model
        self._whole = whole
        self._replicated = replicated
        self._looks_for_nan = keras_hooks.looks_for_nan(callbacks)

    def are_wanted(self, iterator: EpochIterator | None) -> bool:
        """Whether this rank wants training to stop. Local.

        Args:
            iterator: iterator of shared steps; None if Keras's own is used.
        """
        waits = iterator is not None and iterator.stop_wanted
        return bool(self._model.stop_training or waits)

    def after_batch(self, iterator: EpochIterator | None, logs: Mapping[str, Any]) -> None:
        """Pass on the stop that a callback asked for, after the callbacks of a batch.

        Local: the request travels with the next step, and all ranks stop by the sum of requests. If
        every rank computes whole batches it is collective, and all ranks stop at once.

        Args:
            iterator: iterator of shared steps; None if Keras's own is used.
            logs: logs of the batch.

        Raises:
            PreemptedExit: with whole batches, if the ranks agreed to leave.
        """
        model = self._model
        if iterator is None or self._whole.has_begun:
            if self._replicated.leave_agreed:
                checkpoint_and_exit(self._run, None)
            model.stop_training = self._whole.any_stops(self.are_wanted(iterator))
            if iterator is not None and model.stop_training:
                iterator.stop_agreed = True
        elif iterator.stop_agreed:
            model.stop_training = True
        elif model.stop_training and not self._ends_by_nan(logs):
            iterator.stop_wanted = True
            model.stop_training = False

    def _ends_by_nan(self, logs: Mapping[str, Any]) -> bool:
        """Whether the script's TerminateOnNaN, with equal input on all ranks, ended training."""
        return self._looks_for_nan and not np.isfinite(float(logs.get("loss", 0.0)))
