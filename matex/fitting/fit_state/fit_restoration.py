"""State of a running fit: its content in a checkpoint, and its restoration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.checkpointing import model_state
from matex.checkpointing.buffer_pool import BufferPool
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.config.monitored import monitored
from matex.config.virtual import VIRTUAL
from matex.data.sketch import are_same_data
from matex.fitting.fit_batches import BATCHES, FitBatches
from matex.fitting.fit_state import fit_histories
from matex.fitting.fit_state.callback_memory import callbacks_held, restore_callbacks
from matex.fitting.fit_state.clock_readings import ClockReadings
from matex.fitting.listeners import Cursor
from matex.keras_hooks.callback_state.own_state import callbacks_begun, fit_begins
from matex.keras_hooks.log_values import numbers_in
from matex.partition.order import OrderSeed
from matex.partition.passes import Passes
from matex.run.context import RunContext
from matex.strategies import Strategy, Sync

__all__ = ["LOOP", "RAW", "FitCheckpoint", "first_epoch", "is_of_fit", "stops_inside"]

#: Name in the cursor of a custom loop's checkpoint: its number of steps.
LOOP = "loop"

#: Name in the cursor of a fit's checkpoint: whether its ``mark``, the stream
#: digest, is of batches before their maps.
RAW = "raw"

# Names in the cursor: whether training was stopped there, and passes through validation data.
_STOPPED, _VALIDATED = "stopped", "validated"

_DATA, _LINES = "data", "csv_lines"


def is_of_fit(saved: checkpoints.Snapshot | None, number: int) -> bool:
    """Whether fit *number* of the script made *saved*, and not a custom loop before it."""
    return saved is not None and saved.cursor["fit"] == number and LOOP not in saved.cursor


def first_epoch(saved: checkpoints.Snapshot, epochs: int) -> int:
    """Epoch in which a fit of *epochs* epochs goes on; *epochs* if it was stopped before."""
    epoch = int(saved.cursor["epoch"])
    is_over = saved.cursor.get(_STOPPED) and not saved.cursor["samples"]
    return max(epoch, epochs) if is_over else epoch


def stops_inside(saved: checkpoints.Snapshot) -> bool:
    """Whether training was stopped inside the epoch of *saved*, whose end is still to come."""
    return bool(saved.cursor.get(_STOPPED) and saved.cursor["samples"])


class FitCheckpoint:
    """Holds the state of a fit for a checkpoint, and restores it. Local.

    :class:`matex.fitting.fit_state.checkpoint_listener.CheckpointListener` decides when.

    Args:
        number: number of the fit in the script, from 0.
        callbacks: callbacks of ``fit``.
        saved: snapshot from which the run continues, if it was made in this fit; else None.
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
        self._buffers = BufferPool()
        self.saved = saved
        self._continues = saved is not None
        self._readings = ClockReadings()
        self._repeated: checkpoints.Snapshot | None = None  # restored as the epoch began again
        fit_begins(self._callbacks)
        rebuild.begin_fit(model, continues=saved is not None)
        self.seed = OrderSeed(0)
        self.is_raw = False  # of the digests in a cursor
        self.data: list[float] = []
        self.batches = FitBatches()
        self.validated_before = Passes(0 if saved is None else saved.cursor.get(_VALIDATED, 0))
        self.strategy: Strategy = Sync()
        self._lines: np.ndarray | None = None if saved is None else saved.extra.get(_LINES)

    # Restoring.

    def restore(self) -> None:
        """Restore weights, optimizer and the strategy's state, before the first epoch.

        Raises:
            InputError: the checkpoint belongs to another model.
        """
        if self.saved is not None:
            model_state.restore(self._model, self.saved)
            prefix, extra = self._of_strategy, self.saved.extra
            self.strategy.restore_state(
                {
                    name.removeprefix(prefix): value
                    for name, value in extra.items()
                    if name.startswith(prefix)
                }
            )

    @property
    def _of_strategy(self) -> str:
        """Prefix of the names of the strategy's state."""
        return f"strategy/{self.strategy.name}/"

    def know_data(self, sketch: list[float]) -> None:
        """Print a line if the data of the fit, with this *sketch*, differ from the checkpoint's."""
        self.data = sketch
        known = None if self.saved is None else self.saved.extra.get(_DATA)
        if known is None or are_same_data(known.tolist(), sketch):
            return
        self._run.terminal.say(
            "the data of this fit are not those that the checkpoint was made with "
            f"({known[0]:.0f} rows then, {sketch[0]:.0f} now): if the script makes them of a model "
            "that an earlier fit trained, they are wrong, because that fit is passed over"
        )

    def know_batches(self, batches: FitBatches) -> None:
        """Print a line if the *batches* of the fit differ from the checkpoint's."""
        known = FitBatches() if self.saved is None else FitBatches.stored_in(self.saved.extra)
        self.batches = batches.after(known)
        for change in self.batches.changed[len(known.changed) :]:
            self._run.terminal.say(f"the fit goes on otherwise than before: with {change}")

    @property
    def csv_lines(self) -> list[int]:
        """Lines that the file of each CSVLogger had before this fit, if known."""
        return [] if self._lines is None else [int(count) for count in self._lines]

    def note_lines(self, now: list[int]) -> None:
        """Note, as a fit begins, the lines that files of CSVLoggers have. Collective.

        Args:
            now: their numbers, of which the leader's count.
        """
        if now and self.saved is None:
            self._lines = np.array(now, np.int64)
            self._run.communicator.broadcast(self._lines)

    def restore_callbacks(self) -> None:
        """Restore the state of callbacks and history; called after the callbacks have begun."""
        callbacks_begun()
        if self.saved is not None:
            anew = restore_callbacks(self._callbacks, self.saved.extra, as_scripted=self._continues)
            if anew and self._continues:
                self._run.terminal.say(f"after the resumption these begin anew: {'; '.join(anew)}")
            self._lines = self.saved.extra.get(_LINES)
            if told := fit_histories.running_in(self.saved):
                keras_hooks.set_history(self._model, told)
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

    def drop_saved(self) -> None:
        """Drop the snapshot from which the fit has gone on, once a step was made."""
        self._repeated = None

    def _undo_callbacks(self, saved: checkpoints.Snapshot) -> None:
        model_state.restore(self._model, saved)
        keeping = self._readings.include
        restore_callbacks(
            self._callbacks, saved.extra, keeping=keeping, as_scripted=self._continues
        )

    def shapes_changed(self) -> None:
        """Measure the state again, because the model's shapes have changed."""
        self._architecture = self._nbytes = None

    # Saving.

    @property
    def validated(self) -> Passes:
        """Passes through the validation data so far."""
        iterator = keras_hooks.validation_of(self._model)
        if iterator is None:
            return self.validated_before
        passes: Passes = getattr(iterator, "passed", Passes(0, 0))
        return passes

    def measure(self) -> None:
        """Tell the saver the size of the state; local, once until the shapes change."""
        if self._nbytes is None:
            self._nbytes = model_state.nbytes_of(self._model)
            self._run.checkpoints.saver.expect_bytes(self._nbytes)

    def hold(
        self,
        cursor: Cursor,
        *,
        logs: Mapping[str, Any] | None = None,
        more: Mapping[str, np.ndarray] | None = None,
        stopped: bool = False,
    ) -> DeferredSnapshot:
        """Current state, to be continued at *cursor*.

        Args:
            cursor: position in the data.
            logs: logs of the epoch that has just ended.
            more: arrays to put into ``extra``.
            stopped: whether training was stopped there, equal on all ranks.
        """
        if self._architecture is None:
            self._architecture = model_state.architecture_of(self._model)
        saved_cursor = {
            **self.seed.cursor(),
            "fit": self._number,
            "epoch": cursor.epoch,
            "samples": cursor.samples,
            "step": self._run.records.ledger.step,
            "mark": cursor.digest,
            RAW: int(self.is_raw),
        }
        if stopped:
            saved_cursor[_STOPPED] = 1
        if passes := self.validated.number:
            saved_cursor[_VALIDATED] = passes
        if self._run.ranks.virtual_workers:
            saved_cursor[VIRTUAL] = self._run.ranks.virtual_workers
        extra = {
            **rebuild.history_of(self._model, model_state.weights_of(self._model)),
            **callbacks_held(self._callbacks),
            **self._run.records.ledger.job.extra(),
            _DATA: np.array(self.data, np.float64),
            BATCHES: self.batches.packed(),
            **({} if self._lines is None else {_LINES: self._lines}),
            **{
                self._of_strategy + name: value
                for name, value in self.strategy.saved_state().items()
            },
            **(more or {}),
        }
        ended = None if logs is None else (cursor.epoch - 1, logs)
        extra[fit_histories.HISTORIES] = fit_histories.packed(
            self._run.elastic.arrivals.histories, keras_hooks.history_of(self._model, ended=ended)
        )
        best = monitored(self._run.config.monitor)
        if (score := numbers_in(logs).get(best.name)) is not None:
            extra["score"] = np.array(score * best.sign)
        return model_state.hold(
            self._model,
            saved_cursor,
            architecture=self._architecture,
            extra=extra,
            pool=self._buffers,
        )
