"""What Keras is attached to: routes its calls to the shared fit and evaluation."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.checkpointing.stop_requests import told_in_own_loop
from matex.errors import InputError, NotShareable, Unsupported
from matex.evaluation.predict import Predicted, joined
from matex.evaluation.rows import RowEvaluation
from matex.evaluation.select import SharedIterators
from matex.evaluation.stream import StreamEvaluation
from matex.files import intercept, keras_files, library_files, tf_files
from matex.files.private import PrivateFiles, asks_for_rank
from matex.fitting.agreement import check_equal
from matex.fitting.fit import Fit
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.train_on_batch import BatchTrainer, form_of, tensors_of
from matex.fitting.trained_models import TrainedModels
from matex.fitting.whole_batches import slower
from matex.process.callback_placement import AgreementCallback, share_out
from matex.run.context import RunContext
from matex.sources.select import MakeFeed, once

__all__ = ["KerasAdapter"]


class KerasAdapter:
    """Implements :class:`matex.keras_hooks.TrainerHooks`. One to a process.

    Every rank runs the same script, so its calls of fit and evaluate are
    collective, except those made from a callback that runs on the leader.
    """

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self._context: list[str] = []
        self._fit: Fit | None = None
        self._fits = 0
        self._order_seeds = keras_hooks.OrderSeeds()
        self._model: Any = None
        self._trained = TrainedModels()
        self._own_checkpoint = False
        self._sees_test_batches = False
        self._apoptosis: dict[int, keras.callbacks.Callback] = {}
        self.averaging = ReplicatedUpdate(run)
        self.shares = SharedIterators(run)
        self.files: PrivateFiles | None = None  # where there is more than one rank

    @property
    def is_alone(self) -> bool:
        """Whether this rank makes calls that the others do not, in a callback on the leader."""
        return "alone" in self._context

    def start(self) -> None:
        """Attach to Keras; collective."""
        keras_hooks.attach(self)
        keras_hooks.watch_environment()
        if self.run.communicator.initial_size > 1:
            keras_hooks.leave_xla(self.run.say)
        if strange := keras_hooks.untested():
            self.run.say(strange)
        self.run.start()
        self._keep_files_apart()

    def _keep_files_apart(self) -> None:
        """From here on what the script does to files is that of one rank; collective."""
        run = self.run
        if run.communicator.initial_size == 1:
            return
        own = run.config
        passed = (own.report, own.checkpoint, own.memory, own.cache_directory)
        self.files = PrivateFiles(run.communicator, passed)
        if asks_for_rank(_text_of(Path(sys.argv[0]))):
            self.files.script_knows_ranks()
        run.all_have_ended = self.files.finish
        intercept.install(self.files)
        library_files.install(self.files)
        tf_files.install(self.files)
        keras_files.install(self.files)

    def rank_is_asked_for(self) -> None:
        """The script may do on one rank what it does not on others; local."""
        if self.files is not None:
            self.files.script_knows_ranks()

    def finish(self, reason: str | None = None) -> None:
        """The script has ended on all ranks; collective, once."""
        digest = self._trained.digest() if reason is None else None
        self.run.finish(digest, reason=reason)

    # What Keras calls.

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._context:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.made(f"fit number {self._fits + 1}", left=self._share_written):
            return self._shared_fit(original, model, *args, **kwargs)

    def _shared_fit(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any:
        given = _arguments(original, model, *args, **kwargs)
        asked = given["epochs"]
        given["epochs"] = keras_hooks.most_epochs(asked)
        self._fit = fit = Fit(
            self.run,
            model,
            number=self._fits,
            order_seed=self._order_seeds.next(),
            arguments=given,
            averaging=self.averaging,
        )
        self._fits += 1
        self.run.notice.at_once = False  # its steps will ask
        if fit.is_past:
            self.run.say(f"fit number {self._fits} was complete before the checkpoint: passed over")
            model.history = keras.callbacks.History()
            return model.history
        self._add_apoptosis(model, given)
        last = AgreementCallback(
            after_begin=fit.after_begin, after_batch=fit.after_batch, after_epoch=fit.after_epoch
        )
        self._model = model
        self._remember(model)
        try:
            shared = {**self._shared_out(given, last), "epochs": asked}
            history = self._within("fit", lambda: original(model, **shared))
            self._share_written()
            return history
        finally:
            fit.end()
            self._fit = None  # and with it the script's data
            keras_hooks.start_at(model, None)

    def _share_written(self) -> None:
        """What the leader's callbacks wrote is there for all; collective."""
        if self.files is not None:
            self.files.share_written()

    def _add_apoptosis(self, model: Any, given: dict[str, Any]) -> None:
        """The callback that the command line asks for, one to a model."""
        if not self.run.config.apoptosis:
            return
        from matex.apoptosis.callback import Apoptosis

        known = keras_hooks.listed(given["callbacks"])
        if any(isinstance(callback, Apoptosis) for callback in known):
            return
        own = self._apoptosis.setdefault(id(model), Apoptosis(self.run.config.apoptosis))
        given["callbacks"] = [*known, own]

    def model_changed(self) -> None:
        """The model of the running fit has other shapes: trace its step anew. Local."""
        if self._fit is not None:
            self._fit.renew()

    def evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._context == ["fit"] and kwargs.get("_use_cached_eval_dataset"):
            return self._within("evaluate", lambda: original(model, *args, **kwargs))
        if self._context:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.made("evaluate"):
            given = _arguments(original, model, *args, **kwargs)
            given.update(given.pop("kwargs", {}))
            given = self._shared_out(given)
            check_equal(self.run.communicator, model, "evaluate")
            self._model = model
            return self._within("evaluate", lambda: original(model, **given))

    def predict(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._context:
            return self._plainly(lambda: original(model, *args, **kwargs))
        with self.run.calls.made("predict"):
            given = self._shared_out(_arguments(original, model, *args, **kwargs))
            check_equal(self.run.communicator, model, "predict")
            model.make_predict_function()
            self._model = model
            return self._within("predict", lambda: original(model, **given))

    def _plainly(self, call: Callable[[], Any]) -> Any:
        """What a callback asks of a model, as one process would do it; local.

        Other ranks may ask for it at another time, or not at all: no rank waits for them.
        """
        if self.is_alone:
            return call()
        return self._within("plain", call)

    def _within(self, context: str, call: Callable[[], Any]) -> Any:
        self._context.append(context)
        try:
            with self.run.watchdog.working(context != "plain"):
                return call()
        finally:
            self._context.pop()

    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        feed = once(lambda x: original(*args, **{**kwargs, "x": x}))
        steps = keras_hooks.most_steps(kwargs.get("steps_per_epoch"))
        given = {**kwargs, "steps_per_epoch": steps}
        if self._context == ["fit"] and self._fit is not None and not self._fit.begun:
            return self._fit.begin(feed, given)
        if self._context in (["evaluate"], ["fit"]):
            fit = self._fit if self._context == ["fit"] else None
            evaluation = functools.partial(
                self.shares.evaluation, passed=None if fit is None else fit.passed_validation()
            )
            if self._sees_test_batches:
                self.run.say_once(
                    "every rank evaluates all of the data: a callback sees each batch"
                )
                return feed(kwargs["x"])
            return self._unless_whole("evaluates", evaluation, feed, given)
        if self._context == ["predict"]:
            return self._unless_whole("predicts", self.shares.prediction, feed, given)
        return original(*args, **kwargs)

    def _unless_whole(self, verb: str, make: Any, feed: MakeFeed, given: dict[str, Any]) -> Any:
        """What *make* gives, or Keras's own iterator where the data cannot be shared."""
        try:
            return make(self._model, feed, given)
        except NotShareable as reason:
            self.run.say_once(f"every rank {verb} all of the data: {reason}")
            return feed(given["x"])

    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        singles: dict[str, BatchTrainer | None] = {}

        def train(iterator: Any) -> Any:
            if self._context == ["fit"] and self._fit is not None:
                return self._fit.step(original, iterator)
            if self._context:
                return original(iterator)
            batch = tensors_of(next(iterator))
            form = form_of(batch)
            with self.run.watchdog.working(), self.run.calls.made("train_on_batch"):
                try:
                    if form not in singles:
                        number = len(self._trained)
                        singles[form] = BatchTrainer(self.run, model, batch, number=number)
                    self._remember(model)
                    self._tell_unsaved("train_on_batch")
                    single = singles[form]
                    if single is not None:
                        return single(batch)
                except NotShareable as reason:
                    singles[form] = None
                    if self.run.communicator.initial_size > 1:
                        self.run.say_once(
                            f"every rank computes the whole batch, {slower(self.run)}; "
                            f"because {reason}"
                        )
                return self._within("train_on_batch", lambda: original(iter([batch])))

        return train

    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        def test(iterator: Any) -> Any:
            if isinstance(iterator, RowEvaluation):
                return iterator.run(model)
            if isinstance(iterator, StreamEvaluation):
                return iterator.run()
            return original(iterator)

        test.original = original  # type: ignore[attr-defined]
        return test

    def predict_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        def predict(data: Any) -> Any:
            if isinstance(data[0], Predicted):
                return joined(data)
            return original(data)

        predict.original = original  # type: ignore[attr-defined]
        return predict

    def applying(self, optimizer: Any, gradients: list[Any]) -> list[Any]:
        """An optimizer is about to change weights outside of a shared step; collective."""
        if self.run.communicator.initial_size == 1:
            if not self._context and not self._own_checkpoint:
                self._leave_own_loop_alone()
            return gradients
        if self._context[-1:] == ["alone"]:
            raise Unsupported(
                "a callback that trains must do so on every rank. Received: an optimizer step in "
                "one that runs on the leader; do not give its class the attribute on_one_rank"
            )
        if not self._context:
            self._tell_own_loop()
            self._trained.remember(optimizer, variables=lambda: keras_hooks.state_of(optimizer))
        return self.averaging.average(optimizer, gradients)

    def stepping_on(self, data: Any) -> None:
        """A train step that is traced or run gets *data*; None after it. Local."""
        self.averaging.batch = data

    def taped(self, gradients: list[Any], sources: list[Any]) -> list[Any]:
        """What a distributed tape gives for *gradients* of *sources*; collective in own loops.

        Under fit and train_on_batch the optimizer sees to it.
        """
        alone = self.run.communicator.initial_size == 1
        if alone or self._context or keras_hooks.is_recording():
            return gradients
        variables = [s for s in sources if isinstance(s, keras.Variable | tf.Variable)]
        self._tell_own_loop()
        self._trained.remember(*variables, variables=lambda: variables)
        return self.averaging.average(None, gradients)

    def _leave_own_loop_alone(self) -> None:
        """One rank makes no exchange that would tell it to leave; local.

        Raises:
            ToldToLeave: it was told before.
        """
        self._tell_unsaved("a loop of one's own")
        if self.run.notice.told:
            raise told_in_own_loop()
        self.run.notice.at_once = True

    def _tell_own_loop(self) -> None:
        self.run.say_once(
            f"a loop of one's own runs whole on every rank, {slower(self.run)}; "
            "fit and train_on_batch share the work"
        )
        self._tell_unsaved("a loop of one's own")

    def begin_own_checkpoint(self) -> int:
        """The script saves a loop of its own; local. How many fits came before.

        Raises:
            InputError: it does so already.
        """
        if self._own_checkpoint:
            raise InputError(
                "one matex.Checkpoint was wanted. Received: a second; give all parts to the first"
            )
        self._own_checkpoint = self.run.script_leaves = True
        self.run.notice.at_once = False
        return self._fits

    def _tell_unsaved(self, what: str) -> None:
        if self.run.saver.is_on and not self._own_checkpoint:
            self.run.say_once(
                f"no checkpoint is made of {what}: only the script could continue it, "
                "with matex.Checkpoint"
            )

    def _remember(self, model: Any) -> None:
        """Note *model*, whose weights are part of what the ranks compare at the end."""

        def variables() -> list[Any]:
            optimizer = getattr(model, "optimizer", None)  # none where fit was refused, uncompiled
            slots = [] if optimizer is None else optimizer.variables
            return [*model_state.weights_of(model), *slots]

        self._trained.remember(model, variables=variables)

    def _shared_out(self, given: dict[str, Any], *last: keras.callbacks.Callback) -> dict[str, Any]:
        """The arguments for Keras's own method, with each callback where it belongs. Local."""
        own = keras_hooks.listed(given["callbacks"])
        self._sees_test_batches = any(map(keras_hooks.sees_test_batches, own))
        callbacks = share_out(
            given["callbacks"],
            verbose=given["verbose"],
            leads=lambda: self.run.leads,
            alone=self._alone,
            restored=self._restored,
            last=last,
        )
        return {**given, "callbacks": callbacks}

    def _restored(self) -> None:
        if self._fit is not None:
            self._fit.after_restore()

    def _alone(self, call: Callable[[], None]) -> None:
        """Run *call* with plain Keras, as one process would; local."""
        self._context.append("alone")
        try:
            written = contextlib.nullcontext() if self.files is None else self.files.written()
            with self.run.watchdog.working(False), written:
                call()
        finally:
            self._context.pop()


def _text_of(script: Path) -> str:
    try:
        return script.read_text(errors="replace")
    except OSError:  # none, as in a notebook
        return ""


def _arguments(
    original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given.pop("self")
    return given
