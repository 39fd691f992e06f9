"""Calls of ``evaluate`` and ``predict``: shared, or made as in one process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from matex.errors import NotShareable
from matex.evaluation.select import SharedIterators
from matex.fitting.agreement import check_equal
from matex.process.call_context import CallContext
from matex.process.call_stack import CallKind, arguments_of
from matex.sources.select import MakeFeed

__all__ = ["EvaluationCalls"]


class EvaluationCalls:
    """The script's evaluations and predictions, and the validations of its fits.

    Args:
        context: context of the calls.
    """

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self._run, self._calls = context.run, context.calls
        self._shared = SharedIterators(context.run)

    def evaluate(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """Make the script's or a fit's call of ``evaluate``; collective if the script makes it."""
        context = self._context
        if self._calls.only is CallKind.FIT and kwargs.get("_use_cached_eval_dataset"):
            with self._run.records.trace.call("validation"):
                return context.within(CallKind.EVALUATE, lambda: original(model, *args, **kwargs))
        if self._calls.is_beside:
            return context.beside("evaluates", lambda: original(model, *args, **kwargs))
        if not self._calls.is_empty:
            return context.plainly(lambda: original(model, *args, **kwargs))
        with self._run.calls.ordered_call("evaluate"):
            given = arguments_of(original, model, *args, **kwargs)
            given |= given.pop("kwargs", {})
            given = context.with_placed_callbacks(given)
            check_equal(self._run.communicator, model, "evaluate")
            context.model = model
            with self._run.records.trace.call("evaluate"):
                return context.within(CallKind.EVALUATE, lambda: original(model, **given))

    def predict(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a call of ``predict``; collective if the script makes it."""
        context = self._context
        if self._calls.is_beside:
            return context.beside("predicts", lambda: original(model, *args, **kwargs))
        if not self._calls.is_empty:
            return context.plainly(lambda: original(model, *args, **kwargs))
        with self._run.calls.ordered_call("predict"):
            given = context.with_placed_callbacks(arguments_of(original, model, *args, **kwargs))
            check_equal(self._run.communicator, model, "predict")
            model.make_predict_function()
            context.model = model
            with self._run.records.trace.call("predict"):
                return context.within(CallKind.PREDICT, lambda: original(model, **given))

    def data(self, call: CallKind, feed: MakeFeed, given: dict[str, Any]) -> Any:
        """Iterator over the data of the running *call*, shared if they can be.

        Args:
            call: a fit, whose validation begins, an evaluation or a prediction.
            feed: function that makes Keras's own iterator.
            given: arguments from which Keras would construct it.
        """
        if call is CallKind.PREDICT:
            return self._unless_whole("predicts", self._shared.prediction, feed, given)
        if self._context.sees_test_batches:
            self._context.say_whole("evaluates", "a callback sees each batch")
            return feed(given["x"])
        fit = self._context.fit
        passed = fit.validated if call is CallKind.FIT and fit else None
        evaluation = functools.partial(self._shared.evaluation, passed=passed)
        return self._unless_whole("evaluates", evaluation, feed, given)

    def _unless_whole(self, verb: str, make: Any, feed: MakeFeed, given: dict[str, Any]) -> Any:
        """Iterator from *make*, or Keras's own if the data cannot be shared."""
        try:
            return make(self._context.model, feed, given)
        except NotShareable as reason:
            self._context.say_whole(verb, str(reason))
            return feed(given["x"])
