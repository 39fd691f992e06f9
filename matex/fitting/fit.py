"""A call of ``model.fit``: work before its first step and between its epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ft
from matex import keras_hooks
from matex.apoptosis.cut.saved_widths import cut_as_saved
from matex.errors import MatexError, NotShareable
from matex.fitting.epoch_agreement import EpochAgreement
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.fit_parts import FitParts
from matex.fitting.fit_record import FitRecord
from matex.fitting.fit_state.saved_cursor import first_epoch, is_of_fit
from matex.fitting.fit_step import keep_step
from matex.fitting.joining.spare_handover import Handover
from matex.fitting.listeners import EpochReport, FitListener
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.restored_model import share_restored
from matex.fitting.shared_fit import SharedFit, begin_shared
from matex.fitting.trained_models import TrainedModels
from matex.fitting.training_stops import TrainingStops
from matex.keras_hooks import early_optimizers
from matex.keras_hooks.log_values import numbers_in
from matex.partition.order import OrderSeed
from matex.partition.passes import Passes
from matex.run.context import RunContext
from matex.sources.data_agreement import check_same_data, check_same_validation
from matex.sources.select import MakeFeed, once, rows_of

__all__ = ["Fit"]


class Fit:
    """A fit; collective from beginning to end: every rank makes the same fit.

    Args:
        run: run of the fit.
        model: model being trained.
        number: number of the fit in the script, from 0.
        order_seed: seeds of the order of the samples.
        arguments: all arguments of ``model.fit``, by name.
        replicated: update for steps that cannot be shared.
        trained: models that the script has trained so far, including this one once it begins.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        *,
        number: int,
        order_seed: OrderSeed,
        arguments: dict[str, Any],
        replicated: ReplicatedUpdate,
        trained: TrainedModels,
    ) -> None:
        # NumPy numbers work as well, but JSON does not take them.
        for name in ("epochs", "initial_epoch", "batch_size"):
            if hasattr(arguments[name], "__index__"):
                arguments[name] = int(arguments[name])
        self._run = run
        self._model = model
        self._number = number
        self._arguments = arguments
        self._replicated = replicated
        saved = run.checkpoints.saved if is_of_fit(run.checkpoints.saved, number) else None
        self.resumed_epoch = None if saved is None else first_epoch(saved, arguments["epochs"])
        self._parts = FitParts.of(
            run,
            model,
            number=number,
            order_seed=order_seed,
            arguments=arguments,
            saved=saved,
            replicated=replicated,
            trained=trained,
        )
        callbacks = arguments["callbacks"]
        self._facts, self._restoration = self._parts.facts, self._parts.restoration
        self._whole = self._parts.whole
        self._agreement = EpochAgreement(run, model, callbacks)
        self._stops = TrainingStops(run, model, self._whole, replicated, callbacks)
        self._listeners: list[FitListener] = []
        self._shared: SharedFit | None = None
        self._handover: Handover | None = None
        self._logs: dict[str, Any] = {}
        self.has_begun = False  # whether Keras has asked for its iterator

    @property
    def is_past(self) -> bool:
        """Whether other ranks, or an earlier start of the run, have made this fit."""
        return self._run.checkpoints.passes_over(self._number)

    @property
    def _iterator(self) -> EpochIterator | None:
        return None if self._shared is None else self._shared.iterator

    # Before the first step.

    def begin(self, make_feed: MakeFeed, given: dict[str, Any]) -> Any:
        """Return the iterator for Keras: of shared steps, or Keras's own; collective.

        Args:
            make_feed: function that makes Keras's own iterator.
            given: arguments from which Keras would construct it.

        Raises:
            InputError, Unsupported: on every rank.
        """
        self.has_begun = True
        if self._restoration.saved is not None:
            return self._begin(make_feed, given)
        with early_optimizers.building(self._model):
            return self._begin(make_feed, given)

    def _begin(self, make_feed: MakeFeed, given: dict[str, Any]) -> Any:
        keras_hooks.verify(type(self._model))
        batches = rows_of(**given)
        check_same_data(self._run.communicator, given["x"], batches, "fit")
        check_same_validation(self._run.communicator, self._arguments["validation_data"])
        with keras_hooks.Generators.moved_by(make_feed) as drawing:
            make_feed = once(drawing)
            try:
                keras_hooks.refuse(self._model)
                self._shared = begin_shared(self._parts, make_feed, given, batches)
            except NotShareable as reason:
                self._whole.begin(reason, is_iterating=False)
                self._listeners = [FitRecord(self._run, self._model, self._parts.plan, None)]
                return make_feed(given["x"])
        self._listeners = self._shared.listeners
        return self._shared.iterator

    def restore_by(self, restore: Callable[[], None]) -> None:
        """Give all ranks the model that *restore* makes of the leader's; collective.

        A checkpoint of the run itself is newer and is used instead.

        Args:
            restore: local function of BackupAndRestore.
        """
        model, iterator = self._model, self._iterator
        if self.resumed_epoch is not None:
            if self._run.communicator.world.is_leader:
                restore()
            self._restoration.restore_model()
            keras_hooks.start_at(model, self.resumed_epoch)
            return
        given = self._arguments["initial_epoch"]
        epoch = share_restored(self._run.communicator, model, restore, initial_epoch=given)
        keras_hooks.start_at(model, epoch)
        if iterator is None:
            return
        iterator.begin_at(epoch)
        if iterator.source.samples is not None:
            done = min(epoch, self._arguments["epochs"]) - given
            self._run.records.ledger.expect_samples(-done * iterator.source.samples)

    @property
    def csv_lines(self) -> list[int]:
        """Lines that the file of each CSVLogger had before the fit that goes on, if known."""
        return self._facts.csv_lines

    def after_begin(self, csv_lines: list[int]) -> None:
        """Restore the state of an earlier run, or wait as a spare; collective.

        Called after the callbacks' ``on_train_begin``.

        Args:
            csv_lines: lines that the file of each CSVLogger has now, as the leader sees it.

        Raises:
            SpareReleased: on a spare, when the others leave.
        """
        self._restoration.restore_callbacks()
        self._facts.note_lines(csv_lines)
        first = keras_hooks.first_epoch(self._model, self._arguments["initial_epoch"])
        if self._shared is None or first >= self._arguments["epochs"]:
            return
        self._handover = self._shared.spares.open(self._shared.iterator)
        if self._shared.spares.came_too_late:
            keras_hooks.start_at(self._model, self._arguments["epochs"])
        if self._handover is not None:
            self._join(self._shared, self._handover)

    def _join(self, shared: SharedFit, handover: Handover) -> None:
        """Take over the progress of the other ranks. Local: an error ends this rank alone."""
        try:
            if cut_as_saved(self._model, handover.saved):
                self.shapes_changed()
            handover.restore(self._parts)
        except MatexError as error:
            ft.fail_stop(f"a spare cannot go on from the state of the others: {error}")
        early_optimizers.now_built(self._model)
        shared.retracing.joined()
        handover.begin(self._model, shared.iterator, self._arguments)

    @property
    def validated(self) -> Passes:
        """Passes through the validation data, of this rank or of those whose state it has."""
        return self._facts.validated

    # Steps and epochs.

    def step(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """Make the steps of a call of Keras's train function; return the logs; collective."""
        early_optimizers.now_built(self._model)
        if self._handover is not None and self._handover.take_files():
            self._restoration.restore_step()
        if self._iterator is not None:
            self._logs = self._iterator.run(original)
        else:
            self._logs = self._whole.step_of(lambda: original(iterator))
        return self._logs

    def after_batch(self) -> None:
        """Act after the callbacks of a batch, which may have asked for a stop; collective.

        Raises:
            PreemptedExit: if the ranks agreed to leave.
        """
        iterator = self._iterator
        if iterator is not None and iterator.repeats_batch:
            iterator.repeats_batch = False
            self._restoration.restore_batch()
        self._stops.after_batch(iterator, self._logs)
        if iterator is not None:
            stops = iterator.stop_agreed or self._stops.are_wanted(iterator)
            for listener in self._listeners:
                listener.batch_done(iterator.cursor, stops=stops)

    def after_epoch(self, epoch: int, logs: Any) -> None:
        """Decide on the next epoch and compare replicas, after an epoch's callbacks; collective.

        Raises:
            ReplicasDiverged: on every rank.
        """
        model, iterator = self._model, self._iterator
        agreed = self._agreement.agree(epoch, stops=self._stops.are_wanted(iterator))
        if agreed.stops:
            model.stop_training = True
            self._leave_out_after(epoch)
        report = EpochReport(
            epoch=epoch,
            logs=logs or {},
            metrics=numbers_in(logs),
            digest=0 if iterator is None else iterator.source.digest,
            is_complete=iterator is not None and iterator.epoch_is_complete,
            is_last=bool(model.stop_training or epoch + 1 == self._arguments["epochs"]),
            is_stopped=bool(model.stop_training),
            is_short=agreed.is_short,
        )
        for listener in self._listeners:
            listener.epoch_done(report)

    def _leave_out_after(self, epoch: int) -> None:
        """Subtract the samples of *epoch* after the cursor, and later ones, from the expected."""
        if self._iterator is None:
            return
        cursor = self._iterator.cursor
        if cursor.epoch_samples is not None:
            left = cursor.epoch_samples - cursor.samples
            left += cursor.epoch_samples * (self._arguments["epochs"] - 1 - epoch)
            self._run.records.ledger.expect_samples(-left)

    def after_end(self) -> None:
        """Give all ranks one model, after the callbacks' ``on_train_end``; collective."""
        self._agreement.agree_end()

    def shapes_changed(self) -> None:
        """Retrace the step between two steps, because the model's shapes have changed; local."""
        self._parts.snapshots.shapes_changed()
        if self._shared is not None:
            self._shared.retracing.shapes_changed()

    def train_function_made(self) -> None:
        """Note that Keras has made the train function, and traces it in the next step. Local."""
        if self._shared is not None:
            self._shared.retracing.train_function_made()

    def end(self) -> None:
        """End the fit after its last step, or after an exception; local."""
        self._replicated.end_fit()
        keras_hooks.add_epochs(self._model)
        if self._shared is None:
            return
        self._shared.spares.end()
        self._shared.iterator.close()
        keep_step(self._run, self._model, self._shared.iterator.engine.compiled)
