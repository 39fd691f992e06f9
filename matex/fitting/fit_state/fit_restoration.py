"""Restoration of a fit from a snapshot, in the order in which Keras begins the fit."""

from __future__ import annotations

from typing import Any

import checkpoints
from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.checkpointing import model_state
from matex.fitting.fit_state import fit_histories
from matex.fitting.fit_state.callback_memory import restore_callbacks
from matex.fitting.fit_state.clock_readings import ClockReadings
from matex.fitting.fit_state.fit_facts import FitFacts
from matex.keras_hooks.callback_state.own_state import callbacks_begun, fit_begins
from matex.run.terminal import Terminal

__all__ = ["FitRestoration"]


class FitRestoration:
    """Restores a fit that continues, or that a rank joins. Local.

    Keras begins a fit, its callbacks, an epoch and a batch as if they were the first, so each is
    restored right after: the methods are called in the order in which they stand here. ``saved``
    is the snapshot until the epoch is restored.

    Args:
        terminal: printer of lines for the user.
        model: model being trained.
        facts: facts about the fit, with its strategy.
        callbacks: callbacks of ``fit``.
        saved: snapshot from which the fit continues; None if it begins.
    """

    def __init__(
        self,
        terminal: Terminal,
        model: Any,
        facts: FitFacts,
        callbacks: Any,
        saved: checkpoints.Snapshot | None,
    ) -> None:
        self._terminal = terminal
        self._model = model
        self._facts = facts
        self._callbacks = keras_hooks.listed(callbacks)
        self.saved = saved
        self._continues = saved is not None
        self._readings = ClockReadings()
        self._repeated: checkpoints.Snapshot | None = None  # restored as the epoch began again

    def begin(self) -> None:
        """Note how the callbacks and the model are as ``fit`` is called."""
        fit_begins(self._callbacks)
        rebuild.begin_fit(self._model, continues=self._continues)

    def restore_model(self) -> None:
        """Restore weights, optimizer and the strategy's state, before the first epoch.

        Raises:
            InputError: the checkpoint belongs to another model.
        """
        if self.saved is not None:
            model_state.restore(self._model, self.saved)
            self._facts.restore_strategy(self.saved)

    def restore_callbacks(self) -> None:
        """Restore the state of callbacks and history; called after the callbacks have begun."""
        callbacks_begun()
        if self.saved is not None:
            anew = restore_callbacks(self._callbacks, self.saved.extra, as_scripted=self._continues)
            if anew and self._continues:
                self._terminal.say(f"after the resumption these begin anew: {'; '.join(anew)}")
            if history := fit_histories.running_in(self.saved):
                keras_hooks.set_history(self._model, history)
            self._readings = ClockReadings()

    def restore_epoch(self) -> None:
        """Restore the interrupted epoch; called after Keras and callbacks have begun it again.

        Keras has reset the metrics, and callbacks may have changed a second time what they change
        as an epoch begins, such as the learning rate.
        """
        saved, self.saved = self.saved, None
        if saved is None:
            return
        # The state of a rank that joins is of the running step, for which callbacks had begun.
        inside = bool(saved.cursor["samples"])
        self._repeated = saved if inside or not self._continues else None
        if inside:
            if self._continues:
                self._undo_callbacks(saved)
            model_state.restore_metrics(self._model, saved)

    def restore_step(self) -> None:
        """Restore what callbacks have changed that began the running step on a rank that joins.

        Called right before the step: other ranks' callbacks had begun the epoch and the batch when
        they sent their state, and those of this rank have begun both once more.
        """
        if self._repeated is not None:
            self._undo_callbacks(self._repeated)

    def restore_batch(self) -> None:
        """Restore what callbacks have changed that saw the interrupted run's last batch again."""
        if self._repeated is not None:
            self._undo_callbacks(self._repeated)

    def end(self) -> None:
        """Drop the snapshot from which the fit has gone on, once a step was made."""
        self._repeated = None

    def _undo_callbacks(self, saved: checkpoints.Snapshot) -> None:
        model_state.restore(self._model, saved)
        keeping = self._readings.include
        restore_callbacks(
            self._callbacks, saved.extra, keeping=keeping, as_scripted=self._continues
        )
