"""Steps with several updates: transactions that complete, or are rolled back and made again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import TrainingError
from matex.exchange import GraphExchange, Layout
from matex.sources.interface import GlobalBatch
from matex.steps.declined import StepDeclined
from matex.steps.executors.bad_sums import BadSums
from matex.steps.executors.executor import FinishedExchanges
from matex.steps.executors.step_context import StepContext
from matex.steps.graphs.graph_inspection import finds_nonfinite
from matex.steps.nonfinite import StepRedo
from matex.steps.separability.comparison import agree_separable
from matex.steps.separability.update_separability import (
    find_inseparable_update,
    find_inseparable_update_now,
)
from matex.steps.several_updates_step import SeveralUpdatesStep

__all__ = ["SeveralUpdates"]


class SeveralUpdates:
    """Executes steps with several exchanges.

    If a rank dies in one of them the survivors restore what the step had changed (weights, slots,
    counters, statistics, seeds), divide the rows anew, and make the whole step again. Only if some
    rank has completed the last exchange, the step stands, and ranks that lack the sum get it.

    Args:
        context: objects of the run and of the running step.
        step: step of the model.
        check_finite: whether the exchanges check for NaN and infinity.
    """

    exchange = None  # the step has its own

    def __init__(
        self, context: StepContext, step: SeveralUpdatesStep, *, check_finite: bool
    ) -> None:
        self._services = context.services
        self._communicator = self._services.communicator
        self._bad_sums = BadSums(context)
        self._rows = context.rows
        self._account = context.account
        self._repair = context.repair
        self._step = step
        self._check_finite = check_finite
        self._last: GraphExchange | None = None
        self._left_out = StepRedo(0, 0, False)

    @property
    def finished(self) -> FinishedExchanges:
        return FinishedExchanges.by(*self._step.exchanges.used, self._connected())

    def prepare(self, sample: Callable[[], Any]) -> None:
        self._connected()

    def check_separable(self, batch: GlobalBatch) -> None:
        ranks = self._communicator.initial_size
        found = find_inseparable_update(self._step, batch, ranks=ranks)
        agree_separable(self._communicator, found)

    def find_inseparable(self, rows: Any) -> str:
        return find_inseparable_update_now(self._step, rows)

    def execute(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        self._services.nonfinite.begin()
        self._repair.begin()
        self._left_out = StepRedo(0, 0, False)
        self._account.begin()
        self._connected()
        self._step.rollback.begin()
        try:
            result = self._insisted(batch)
            # A rank that declines has made its part, for others may not decline.
            if decline and self.finished.header.is_declined:
                raise StepDeclined
            return self._step.commit([keras_hooks.constant(part) for part in result])
        except BaseException:
            self._step.rollback.put_back()
            raise
        finally:
            self._step.rollback.end()

    def _insisted(self, batch: GlobalBatch) -> Sequence[np.ndarray]:
        """Make the updates, again after each death in them; return the last sums."""
        for attempt in itertools.count():
            try:
                self._attempt(batch, again=attempt > 0)
            except (keras_hooks.OpError, ft.PeerFailure, TrainingError) as error:
                started = time.perf_counter()
                if not self._recovered(error):
                    self._account.death_cost.seconds += time.perf_counter() - started
                    continue
            if self._is_tried(batch):
                break
        return self._connected().result()

    def _is_tried(self, batch: GlobalBatch) -> bool:
        """Whether all updates of the step were checked; if not, the step is rolled back.

        Collective if they were not: they are checked on *batch*, and the step is made again.

        Raises:
            NotShareable: on every rank; nothing is changed.
        """
        step = self._step
        if self._communicator.initial_size == 1 or step.exchanges.are_among(step.checked):
            return True
        step.rollback.put_back()
        try:
            self.check_separable(batch)
        finally:
            step.rollback.begin()
        self._account.divide_anew()
        return False

    def _attempt(self, batch: GlobalBatch, *, again: bool) -> None:
        spans, step = self._account.have, self._step
        lo, hi = batch.span
        samples = hi - lo - self._left_out.samples
        fingerprint = batch.fingerprint([batch.span]) - self._left_out.fingerprint
        last = self._connected()
        step.exchanges.begin_attempt(
            last, samples=samples, fingerprint=fingerprint, sends_nothing=not spans, again=again
        )
        computed = spans or [(lo, min(lo + 1, hi))]
        control = self._rows.control(computed, counts=bool(spans), samples=samples)
        auxiliary = step.run(self._rows.rows(computed), control)
        step.exchanges.finish_attempt(last, auxiliary)

    def _recovered(self, error: BaseException) -> bool:
        """Whether the step stands after all; if not, everything is as before the step. Collective.

        Raises:
            TrainingError: on every rank.
        """
        exchange = self._step.exchanges.failed
        if exchange is None:  # an error of the script's own code
            raise error
        cause = exchange.error
        if isinstance(cause, ft.PeerFailure):
            return self._survived(exchange)
        if not isinstance(cause, TrainingError):
            raise error if cause is None else cause
        self._step.rollback.put_back()
        self._decide(exchange, cause)
        return False

    def _survived(self, exchange: GraphExchange) -> bool:
        is_last = exchange is self._last
        if self._repair.recover(ends_step=is_last, undo=self._step.rollback.put_back):
            exchange.check()
            return True
        # The shares of work, and any agreement on samples to leave out, are obsolete.
        self._left_out = StepRedo(0, 0, False)
        self._account.take_over()
        return False

    def _decide(self, exchange: GraphExchange, error: TrainingError) -> None:
        """Decide how the step is made again after a wrong sum; collective.

        Raises:
            TrainingError: on every rank, if it is not made again.
        """
        redo = self._bad_sums.decide_redo(exchange, error)
        if redo.anew:
            self._account.divide_anew()
        elif redo.samples:
            self._left_out = redo
            if exchange.spoiled:
                self._account.have = []

    def _connected(self) -> GraphExchange:
        """The last exchange; the first call makes all exchanges."""
        if self._last is None or self._last is not self._step.last_exchange:
            step, check = self._step, self._check_finite and not self._is_guarded()

            def make(layout: Layout) -> GraphExchange:
                return self._services.make_exchange(layout, check)

            step.exchanges.connect(make)
            assert step.layout is not None
            self._last = step.last_exchange = step.last_exchange or make(step.layout)
            for exchange in (*step.exchanges.made, self._last):
                exchange.check_finite = check
        return self._last

    def _is_guarded(self) -> bool:
        """Whether the step itself looks for NaN in the gradients that its tapes compute.

        A script that leaves out such an update goes on, unless the run was told what to do then.
        """
        step = self._step
        return (
            step.updates.at_tapes
            and self._services.nonfinite.stops
            and finds_nonfinite(step.quiet())
        )
