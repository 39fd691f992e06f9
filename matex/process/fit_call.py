"""Calls of ``fit`` that the script makes: all ranks come to each, and share its work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.fitting.fit import Fit
from matex.fitting.fit_state.earlier_fits import EarlierFits
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.trained_models import TrainedModels
from matex.process.apoptosis_option import ApoptosisOption
from matex.process.call_context import CallContext
from matex.process.call_stack import CallKind, arguments_of
from matex.process.callback_placement import AgreementCallback
from matex.process.data_pass import DataPass

__all__ = ["FitCall"]


class FitCall:
    """Call of ``fit``, one after the other. One per process.

    Args:
        context: context of the calls.
        replicated: update for steps that cannot be shared.
        trained: models that the script has trained so far.
        data_pass: pass over the data of a fit that an earlier start has made.
    """

    def __init__(
        self,
        context: CallContext,
        replicated: ReplicatedUpdate,
        trained: TrainedModels,
        data_pass: DataPass,
    ) -> None:
        self._context = context
        self._run = context.run
        self._replicated, self._trained, self._data_pass = replicated, trained, data_pass
        self._earlier = EarlierFits(context.run, trained)
        self._order_seeds = keras_hooks.OrderSeeds()
        self._apoptosis = ApoptosisOption(context.run.config)
        self.count = 0
        """Number of fits that the script has begun."""

    def make(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """Make the script's next call of ``fit``; collective."""
        context = self._context
        if not context.calls.is_empty:
            return context.plainly(lambda: original(model, *args, **kwargs))
        name = f"fit number {self.count + 1}"
        with self._run.calls.ordered_call(name, left=context.share_written):
            return self._shared(original, model, *args, **kwargs)

    def _shared(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        context, run = self._context, self._run
        given = arguments_of(original, model, *args, **kwargs)
        asked = given["epochs"]
        given["epochs"] = keras_hooks.most_epochs(asked)
        number, self.count = self.count, self.count + 1
        context.fit = fit = Fit(
            run, model, number=number, order_seed=self._order_seeds.next(), arguments=given,
            replicated=self._replicated, trained=self._trained,
        )  # fmt: skip
        run.stop_request.raise_in_handler(False)  # its steps will ask
        if fit.is_past:
            context.fit = None
            read = functools.partial(self._data_pass.make, original, model, given)
            with context.calls.within(CallKind.PLAIN):
                return self._earlier.passed_over(model, given, number=number, read=read)
        given["callbacks"] = self._apoptosis.added(model, given["callbacks"])
        last = AgreementCallback(
            after_begin=fit.after_begin, after_batch=fit.after_batch, after_epoch=fit.after_epoch
        )
        context.model = model
        self._earlier.begin(model, number)
        try:
            shared = {**context.with_placed_callbacks(given, last), "epochs": asked}
            if fit.resumed_epoch is not None:
                last.resume(fit.resumed_epoch, fit.csv_lines)
            history = context.within(CallKind.FIT, lambda: original(model, **shared))
            fit.after_end()
            context.share_written()
            last.write_left_out()
            run.elastic.waiting_newcomers.note_history(number, keras_hooks.history_of(model))
            self._earlier.end(model, given, number)
            return history
        finally:
            fit.end()
            context.fit = None  # and with it the script's data
            keras_hooks.start_at(model, None)
