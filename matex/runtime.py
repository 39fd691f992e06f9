"""What Keras is attached to: routes its calls to the shared fit and evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras

from matex import keras_hooks, state
from matex.callbacks import EverySide, share_out
from matex.errors import Unsupported
from matex.evaluation import SharedEvaluation
from matex.feeding import BATCH_SIZE, MakeFeed, rows_of, stream_of
from matex.fit import Fit
from matex.run import Run
from matex.stream_evaluation import StreamEvaluation
from matex.training import Training

__all__ = ["Runtime"]


class Runtime:
    """Implements :class:`matex.keras_hooks.TrainerHooks`. One to a process.

    Every rank runs the same script, so its calls of fit and evaluate are
    collective, except those made from a callback that runs on the leader.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._context: list[str] = []
        self._fit: Fit | None = None
        self._fits = 0
        self._evaluated: Any = None
        self._model: Any = None

    def start(self) -> None:
        """Attach to Keras; collective."""
        keras_hooks.attach(self)
        self.run.start()

    def finish(self, reason: str | None = None) -> None:
        """The script has ended on all ranks; collective, once."""
        digest = None
        if self._model is not None and reason is None:
            variables = (*state.weights_of(self._model), *self._model.optimizer.variables)
            digest = state.weights_hash(variables)
        self.run.finish(digest, reason=reason)

    # What Keras calls.

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._context:
            return original(model, *args, **kwargs)
        given = _arguments(original, model, *args, **kwargs)
        self._fit = fit = Fit(self.run, model, number=self._fits, arguments=given)
        self._fits += 1
        if fit.is_past:
            self.run.say(f"fit number {self._fits} was complete before the checkpoint: passed over")
            model.history = keras.callbacks.History()
            return model.history
        last = EverySide(after_batch=fit.after_batch, after_epoch=fit.after_epoch)
        self._model = self._evaluated = model
        self._context.append("fit")
        try:
            with self.run.watchdog.working():
                return original(model, **self._shared_out(given, last))
        finally:
            self._context.pop()
            fit.end()
            keras_hooks.start_at(model, None)

    def evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._context not in ([], ["fit"]):
            return original(model, *args, **kwargs)
        if not self._context:
            given = _arguments(original, model, *args, **kwargs)
            given.update(given.pop("kwargs", {}))
            args, kwargs = (), self._shared_out(given)
        self._evaluated = model
        self._context.append("evaluate")
        try:
            with self.run.watchdog.working():
                return original(model, *args, **kwargs)
        finally:
            self._context.pop()

    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def feed(x: Any) -> Any:
            return original(*args, **{**kwargs, "x": x})

        if self._context == ["fit"]:
            assert self._fit is not None
            if not self._fit.begun:
                return self._fit.begin(feed, kwargs)
        elif self._context[-1:] != ["evaluate"]:
            return original(*args, **kwargs)
        return self._evaluation(feed, kwargs)

    def _evaluation(self, feed: MakeFeed, given: dict[str, Any]) -> Any:
        steps = given.get("steps_per_epoch")
        batches = rows_of(**{**given, "steps_per_epoch": None})
        if batches is not None:
            return SharedEvaluation(
                self.run.communicator,
                batches,
                batch_size=given.get("batch_size") or BATCH_SIZE,
                steps=steps,
                faults=self.run.faults,
                watchdog=self.run.watchdog,
            )
        try:
            stream = stream_of(given["x"], feed)
        except Unsupported:
            return feed(given["x"])  # every rank evaluates all of it
        return StreamEvaluation(
            self.run.communicator,
            self._evaluated,
            stream,
            faults=self.run.faults,
            progress=self.run.watchdog.progress,
        )

    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        def train(iterator: Any) -> Any:
            if isinstance(iterator, Training):
                return iterator.run()
            self.applying()
            return original(iterator)

        return train

    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]:
        def test(iterator: Any) -> Any:
            if isinstance(iterator, SharedEvaluation):
                return iterator.run(model)
            if isinstance(iterator, StreamEvaluation):
                return iterator.run()
            return original(iterator)

        return test

    def applying(self) -> None:
        """An optimizer is about to change weights on this rank alone."""
        if self.run.communicator.world.size > 1:
            raise Unsupported(
                "training on several ranks goes through model.fit. Received: an optimizer step "
                "outside of it (train_on_batch, a loop of one's own, or a second optimizer)"
            )

    def _shared_out(self, given: dict[str, Any], *last: keras.callbacks.Callback) -> dict[str, Any]:
        """The arguments for Keras's own method, with each callback where it belongs."""
        callbacks = share_out(
            given["callbacks"],
            verbose=given["verbose"],
            leads=lambda: self.run.leads,
            alone=self._alone,
            last=last,
        )
        return {**given, "callbacks": callbacks, "verbose": 0}

    def _alone(self, call: Callable[[], None]) -> None:
        """Run *call* with plain Keras, as one process would; local."""
        self._context.append("alone")
        try:
            with self.run.watchdog.working(False):
                call()
        finally:
            self._context.pop()


def _arguments(
    original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given.pop("self")
    return given
