"""Adapter called by Keras's hooks: it routes calls to the shared fit and evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.evaluation.functions import predict_function, test_function
from matex.fitting.loops.train_on_batch import BatchTrainers
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.process.call_context import CallContext
from matex.process.call_stack import CallKind
from matex.process.custom_loops import CustomLoops
from matex.process.data_pass import DataPass
from matex.process.evaluation_calls import EvaluationCalls
from matex.process.file_separation import separate_files
from matex.process.fit_call import FitCall
from matex.run.context import RunContext
from matex.run.life_cycle import RunLifeCycle
from matex.sources.select import once

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
        self._context = CallContext(run)
        self._calls = self._context.calls
        self._custom_loops = CustomLoops(run, self._calls, self.replicated)
        self._data_pass = DataPass(run.terminal.say)
        self._fit_call = FitCall(
            self._context, self.replicated, self._custom_loops.trained, self._data_pass
        )
        self._evaluation_calls = EvaluationCalls(self._context)

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
        self.run.elastic.files = self._context.files = separate_files(self.run, self._life_cycle)

    def rank_is_asked_for(self) -> None:
        """Note that the script has asked for its rank, so it may act on one rank alone; local."""
        if self._context.files is not None:
            self._context.files.script_knows_ranks()

    def finish(self, reason: str | None = None) -> None:
        """End the run, after the script has ended on all ranks; collective, once."""
        digest = self._custom_loops.trained.digest() if reason is None else None
        self._life_cycle.end(digest, reason=reason)

    # Methods that Keras calls.

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        return self._fit_call.make(original, model, *args, **kwargs)

    def model_changed(self) -> None:
        """Retrace the step of the running fit, because the model's shapes have changed. Local."""
        if self._context.fit is not None:
            self._context.fit.shapes_changed()

    def evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        return self._evaluation_calls.evaluate(original, model, *args, **kwargs)

    def predict(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        return self._evaluation_calls.predict(original, model, *args, **kwargs)

    def train_on_batch(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not self._calls.is_empty:
            return self._context.plainly(lambda: original(model, *args, **kwargs))
        return original(model, *args, **kwargs)  # by the train function, below

    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        feed = once(lambda x: original(*args, **{**kwargs, "x": x}))
        steps = keras_hooks.most_steps(kwargs.get("steps_per_epoch"))
        given = {**kwargs, "steps_per_epoch": steps}
        call, fit = self._calls.only, self._context.fit
        if call is CallKind.FIT and fit and not fit.has_begun:
            return fit.begin(feed, given)
        if call in (CallKind.EVALUATE, CallKind.FIT, CallKind.PREDICT):
            return self._evaluation_calls.data(call, feed, given)
        return original(*args, **kwargs)

    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        trainers, context = BatchTrainers(self.run, model), self._context
        in_fit = self._calls.only is CallKind.FIT
        if in_fit and context.fit is not None and model is context.model:
            context.fit.train_function_made()

        def train(iterator: Any) -> Any:
            if self._calls.only is CallKind.FIT and context.fit is not None:
                return context.fit.step(original, iterator)
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
        return self._fit_call.count
