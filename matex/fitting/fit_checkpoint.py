"""The state of a running fit: what of it is saved, when, and how it is put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.apoptosis import rebuild
from matex.checkpointing import model_state
from matex.checkpointing.buffer_pool import BufferPool
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.saver import FILES
from matex.run.context import RunContext
from matex.run.preemption import leave
from matex.steps.engine import Training

__all__ = ["LOOP", "FitCheckpoint", "is_of_fit"]

#: In the cursor of a checkpoint that a loop of the script's own made: its steps so far.
LOOP = "loop"

_CALLBACKS = "callbacks/"


def is_of_fit(saved: checkpoints.Snapshot | None, number: int) -> bool:
    """Whether fit *number* of the script made *saved*, and not a loop that came before it."""
    return saved is not None and saved.cursor["fit"] == number and LOOP not in saved.cursor


class FitCheckpoint:
    """Local, but for what says otherwise.

    Args:
        number: which fit of the script, from 0.
        callbacks: callbacks given to ``fit``.
        saved: what the run continues from, where that is of this fit.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        *,
        number: int,
        callbacks: Any,
        saved: checkpoints.Snapshot | None,
    ) -> None:
        self._run = run
        self._model = model
        self._number = number
        self._callbacks = keras_hooks.listed(callbacks)
        self._architecture: str | None = None
        self._nbytes: int | None = None
        self._copies = BufferPool()
        self.saved = saved
        self.seed = 0

    # Putting back.

    def restore(self) -> None:
        """Weights and optimizer, before the first epoch.

        Raises:
            InputError: the checkpoint is of another model.
        """
        if self.saved is not None:
            model_state.restore(self._model, self.saved)

    def restore_callbacks(self) -> None:
        """After they have begun: what they remember of earlier epochs."""
        if self.saved is not None:
            extra = self.saved.extra.items()
            memory = {
                name[len(_CALLBACKS) :]: value
                for name, value in extra
                if name.startswith(_CALLBACKS)
            }
            keras_hooks.remember(self._callbacks, memory)

    def restore_metrics(self) -> None:
        """After Keras has reset them in the first epoch; then all is put back."""
        if self.saved is not None and self.saved.cursor["samples"]:
            model_state.restore_metrics(self._model, self.saved)
        self.saved = None

    def renew(self) -> None:
        """The model's shapes have changed."""
        self._architecture = self._nbytes = None

    # Saving.

    def after_step(self, training: Training) -> None:
        """Save what is due, leave if that was agreed; every rank calls it after the same step.

        Raises:
            Leaving: on every rank.
        """
        run = self._run
        self._tell_size()

        def take() -> DeferredSnapshot:
            return self.taken(training.epoch, training.cursor, mark=training.mark)

        if training.agreed.leave:
            training.consensus()
            leave(run, take)
        every = run.config.checkpoint_every
        due = every and run.step % every == 0 and training.cursor != training.samples_in_epoch
        bits = training.agreed.save | (FILES if due else 0)
        if bits:
            training.consensus()
            run.faults.at("checkpoint")
            run.saver.save(bits, take, patient=bool(due))

    def after_epoch(
        self, epoch: int, *, mark: int, logs: Mapping[str, Any], last: bool, short: bool = False
    ) -> None:
        """Save the end of an epoch; collective, after a fit's *last* until it is written.

        Args:
            short: ranks are missing, so this is the moment to start all of them again.

        Raises:
            Leaving: on every rank, where *short*.
        """
        run = self._run
        self._tell_size()

        def take() -> DeferredSnapshot:
            return self.taken(epoch + 1, 0, mark=mark, logs=logs)

        if last:
            run.save_for_all(take)
            return
        if short:
            run.notice.missing = True
            leave(run, take)
            return
        run.faults.at("checkpoint")
        run.saver.save(FILES, take)

    def _tell_size(self) -> None:
        if self._nbytes is None:
            self._nbytes = self._run.saver.nbytes = model_state.nbytes_of(self._model)

    def taken(
        self,
        epoch: int,
        samples: int,
        *,
        mark: int,
        logs: Mapping[str, Any] | None = None,
        more: Mapping[str, np.ndarray] | None = None,
    ) -> DeferredSnapshot:
        """The state now, to be continued at sample *samples* of *epoch*.

        Args:
            mark: digest of the data up to there.
            logs: logs of the epoch that has just ended.
            more: arrays to put into ``extra``.
        """
        if self._architecture is None:
            self._architecture = model_state.architecture_of(self._model)
        cursor = {
            "seed": self.seed,
            "fit": self._number,
            "epoch": epoch,
            "samples": samples,
            "step": self._run.step,
            "mark": mark,
        }
        memory = keras_hooks.memory_of(self._callbacks)
        extra = {
            **rebuild.history_of(self._model, model_state.weights_of(self._model)),
            **{f"{_CALLBACKS}{name}": value for name, value in memory.items()},
            **self._run.job_counts.extra(),
            **(more or {}),
        }
        mode, _, name = self._run.config.monitor.rpartition(":")
        if logs and name in logs:
            extra["score"] = np.array(float(logs[name]) * (-1 if mode == "max" else 1))
        return model_state.hold(
            self._model, cursor, architecture=self._architecture, extra=extra, copies=self._copies
        )
