"""Adapter called by Keras's hooks: it routes calls to the shared fit and evaluation."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.evaluation.functions import predict_function, test_function
from matex.evaluation.select import SharedIterators
from matex.files.private import PrivateFiles
from matex.fitting.agreement import check_equal
from matex.fitting.fit import Fit
from matex.fitting.fit_state.earlier_fits import EarlierFits
from matex.fitting.loops.train_on_batch import BatchTrainers
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.process.apoptosis_option import ApoptosisOption
from matex.process.call_stack import CallKind, CallStack, arguments_of
from matex.process.callback_placement import AgreementCallback, placed_callbacks
from matex.process.custom_loops import CustomLoops
from matex.process.data_pass import DataPass
from matex.process.file_separation import separate_files
from matex.process.progress_bar import living_ranks
from matex.run.context import RunContext
from matex.run.life_cycle import RunLifeCycle
from matex.sources.select import MakeFeed, once

__all__ = ["KerasAdapter"]


class KerasAdapter:
    """Implements :class:`matex.keras_hooks.TrainerHooks`. One per process.

    Every rank runs the same script, so its calls of fit and evaluate are
    collective, except those made from a callback that runs on the leader.
    """

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self.replicated = ReplicatedUpdate(run)
        self._life_cycle = RunLifeCycle(run)
        self._calls = CallStack()
        self._custom_loops = CustomLoops(run, self._calls, self.replicated)
        self._earlier = EarlierFits(run, self._custom_loops.trained)
        self._data_pass = DataPass(run.terminal.say)
        self._shared = SharedIterators(run)
        self._files: PrivateFiles | None = None  # where there is more than one rank
        self._fit: Fit | None = None
        self._fits = 0
        self._order_seeds = keras_hooks.OrderSeeds()
        self._model: Any = None
        self._sees_test_batches = False
        self._apoptosis = ApoptosisOption(run.config)

    @property
    def is_alone(self) -> bool:
        """Whether this rank alone makes the current calls, in a callback on the leader."""
        return self._calls.is_alone

    @property
    def is_in_call(self) -> bool:
        return not self._calls.is_empty

    def start(self) -> None:
        """Attach to Keras; collective."""
        keras_hooks.attach(self)
        keras_hooks.watch_environment()
        if self.run.communicator.initial_size > 1:
            keras_hooks.leave_xla(self.run.terminal.say)
        self._custom_loops.share()
        if strange := keras_hooks.untested():
            self.run.terminal.say(strange)
        self._life_cycle.begin()
        self.run.elastic.files = self._files = separate_files(self.run, self._life_cycle)

    def rank_is_asked_for(self) -> None:
        """Note that the script has asked for its rank, so it may act on one rank alone; local."""
        if self._files is not None:
            self._files.script_knows_ranks()

    def finish(self, reason: str | None = None) -> None:
        """End the run, after the script has ended on all ranks; collective, once."""
        digest = self._custom_loops.trained.digest() if reason is None else None
        self._life_cycle.end(digest, reason=reason)

    # Methods that Keras calls.

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._calls.is_empty:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.ordered_call(f"fit number {self._fits + 1}", left=self._share_written):
            return self._shared_fit(original, model, *args, **kwargs)

    def _shared_fit(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any:
        given = arguments_of(original, model, *args, **kwargs)
        asked = given["epochs"]
        given["epochs"] = keras_hooks.most_epochs(asked)
        number, self._fits = self._fits, self._fits + 1
        self._fit = fit = Fit(
            self.run, model, number=number, order_seed=self._order_seeds.next(), arguments=given,
            replicated=self.replicated, trained=self._custom_loops.trained,
        )  # fmt: skip
        self.run.stop_request.raise_in_handler(False)  # its steps will ask
        if fit.is_past:
            self._fit, read = None, functools.partial(self._data_pass.make, original, model, given)
            with self._calls.within(CallKind.PLAIN):
                return self._earlier.passed_over(model, given, number=number, read=read)
        given["callbacks"] = self._apoptosis.added(model, given["callbacks"])
        last = AgreementCallback(
            after_begin=fit.after_begin, after_batch=fit.after_batch, after_epoch=fit.after_epoch
        )
        self._model = model
        self._earlier.begin(model, number)
        try:
            shared = {**self._with_placed_callbacks(given, last), "epochs": asked}
            if fit.resumed_epoch is not None:
                last.resume(fit.resumed_epoch, fit.csv_lines)
            history = self._within(CallKind.FIT, lambda: original(model, **shared))
            fit.after_end()
            self._share_written()
            last.write_left_out()
            self.run.elastic.waiting_newcomers.note_history(number, keras_hooks.history_of(model))
            self._earlier.end(model, given, number)
            return history
        finally:
            fit.end()
            self._fit = None  # and with it the script's data
            keras_hooks.start_at(model, None)

    def _share_written(self) -> None:
        """Make files that the leader's callbacks wrote visible to all ranks; collective."""
        if self._files is not None:
            self._files.share_written()

    def model_changed(self) -> None:
        """Retrace the step of the running fit, because the model's shapes have changed. Local."""
        if self._fit is not None:
            self._fit.shapes_changed()

    def evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._calls.only is CallKind.FIT and kwargs.get("_use_cached_eval_dataset"):
            with self.run.records.trace.call("validation"):
                return self._within(CallKind.EVALUATE, lambda: original(model, *args, **kwargs))
        if self._calls.is_beside:
            return self._beside("evaluates", lambda: original(model, *args, **kwargs))
        if not self._calls.is_empty:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.ordered_call("evaluate"):
            given = arguments_of(original, model, *args, **kwargs)
            given = self._with_placed_callbacks(given | given.pop("kwargs", {}))  # which pops first
            check_equal(self.run.communicator, model, "evaluate")
            self._model = model
            with self.run.records.trace.call("evaluate"):
                return self._within(CallKind.EVALUATE, lambda: original(model, **given))

    def predict(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._calls.is_beside:
            return self._beside("predicts", lambda: original(model, *args, **kwargs))
        if not self._calls.is_empty:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.ordered_call("predict"):
            given = self._with_placed_callbacks(arguments_of(original, model, *args, **kwargs))
            check_equal(self.run.communicator, model, "predict")
            model.make_predict_function()
            self._model = model
            with self.run.records.trace.call("predict"):
                return self._within(CallKind.PREDICT, lambda: original(model, **given))

    def train_on_batch(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self._calls.is_empty:
            return self._plainly(lambda: original(model, *args, **kwargs))
        return original(model, *args, **kwargs)  # by the train function, below

    def _plainly(self, call: Callable[[], Any]) -> Any:
        """Make a callback's *call* of a model as in one process; local.

        Other ranks may make it at another time, or not at all: no rank waits for them.
        """
        if self.is_alone:
            return call()
        return self._within(CallKind.PLAIN, call)

    def _beside(self, verb: str, call: Callable[[], Any]) -> Any:
        """Make a *call* of a thread of the script's as in one process; local."""
        self._say_whole(verb, "a thread of the script asks for it, at no time that ranks share")
        with self._calls.beside():
            return call()

    def _within(self, kind: CallKind, call: Callable[[], Any]) -> Any:
        with self._calls.within(kind), self.run.watchdog.working(kind is not CallKind.PLAIN):
            return call()

    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        feed = once(lambda x: original(*args, **{**kwargs, "x": x}))
        steps = keras_hooks.most_steps(kwargs.get("steps_per_epoch"))
        given = {**kwargs, "steps_per_epoch": steps}
        call, fit = self._calls.only, self._fit
        if call is CallKind.FIT and fit and not fit.has_begun:
            return fit.begin(feed, given)
        if call in (CallKind.EVALUATE, CallKind.FIT):
            passed = fit.validated if call is CallKind.FIT and fit else None
            evaluation = functools.partial(self._shared.evaluation, passed=passed)
            if self._sees_test_batches:
                self._say_whole("evaluates", "a callback sees each batch")
                return feed(kwargs["x"])
            return self._unless_whole("evaluates", evaluation, feed, given)
        if call is CallKind.PREDICT:
            return self._unless_whole("predicts", self._shared.prediction, feed, given)
        return original(*args, **kwargs)

    def _unless_whole(self, verb: str, make: Any, feed: MakeFeed, given: dict[str, Any]) -> Any:
        """Iterator from *make*, or Keras's own if the data cannot be shared."""
        try:
            return make(self._model, feed, given)
        except NotShareable as reason:
            self._say_whole(verb, str(reason))
            return feed(given["x"])

    def _say_whole(self, verb: str, reason: str) -> None:
        """Print why all ranks do the same work, if there are several."""
        if self.run.communicator.initial_size > 1:
            self.run.terminal.say_once(f"every rank {verb} all of the data: {reason}")

    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        trainers = BatchTrainers(self.run, model)
        if self._calls.only is CallKind.FIT and self._fit is not None and model is self._model:
            self._fit.train_function_made()

        def train(iterator: Any) -> Any:
            if self._calls.only is CallKind.FIT and self._fit is not None:
                return self._fit.step(original, iterator)
            if not self._calls.is_empty:
                return original(iterator)
            return self._custom_loops.train_on_batch(original, model, trainers, next(iterator))

        return self._data_pass.reading_or(model, train)

    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        return test_function(original, model)

    def predict_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        return predict_function(original)

    def before_apply(self, optimizer: Any, gradients: list[Any]) -> list[Any]:
        """An optimizer is about to change weights outside of a shared step; collective."""
        return self._custom_loops.before_apply(optimizer, gradients)

    def note_train_step(self, data: Any) -> None:
        """Note the *data* of a train step that is traced or run; None after it. Local."""
        self.replicated.begin_train_step(data)

    def average_tape(self, gradients: list[Any], sources: list[Any]) -> list[Any]:
        """Average *gradients* of *sources* for a distributed tape; collective in custom loops."""
        return self._custom_loops.average_tape(gradients, sources)

    def begin_own_checkpoint(self) -> int:
        """Note that the script saves a custom loop; return the number of earlier fits; local.

        Raises:
            InputError: the script saves a custom loop already.
        """
        self._custom_loops.begin_checkpoint()
        return self._fits

    def _with_placed_callbacks(self, given: dict[str, Any], *last: Any) -> dict[str, Any]:
        """Arguments for Keras's own method, with each callback placed on its ranks. Local."""
        asked = keras_hooks.listed(given["callbacks"])
        self._sees_test_batches = any(map(keras_hooks.sees_test_batches, asked))
        callbacks = placed_callbacks(
            asked,
            verbose=given["verbose"],
            leads=lambda: self.run.communicator.world.is_leader,
            alone=self._alone,
            restored=self._restored,
            beside_bar=living_ranks(self.run),
            last=last,
            files=self._files,
        )
        return {**given, "callbacks": callbacks}

    def _restored(self, restore: Callable[[], None]) -> None:
        if self._fit is not None:
            self._fit.restore_by(restore)
        elif self.run.communicator.world.is_leader:
            restore()

    def _alone(self, call: Callable[[], None]) -> None:
        """Run *call* with plain Keras, as in one process; local."""
        written = contextlib.nullcontext() if self._files is None else self._files.written()
        with self._calls.within(CallKind.ALONE), self.run.watchdog.working(False), written:
            call()
