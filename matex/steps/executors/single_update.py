"""Steps with one update by one optimizer: one exchange carries everything to be shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import TrainingError
from matex.exchange import GraphExchange
from matex.partition.spans import Span
from matex.sources.interface import GlobalBatch
from matex.steps.executors.executor import FinishedExchanges
from matex.steps.executors.recovery import StepRecovery
from matex.steps.executors.separability_checks import SeparabilityChecks
from matex.steps.executors.step_context import StepContext
from matex.steps.local_contribution import LocalContribution, averaged
from matex.steps.step import Step
from matex.strategies import Strategy

__all__ = ["SingleUpdate"]


class SingleUpdate(SeparabilityChecks):
    """Executes steps by one exchange, whose sum a rank may get from a peer.

    Args:
        context: objects of the run and of the running step.
        step: step of the model.
        strategy: strategy that averages gradients outside of the exchange.
        exchange: buffers of an earlier fit; new ones by default.
        check_finite: whether the exchange checks for NaN and infinity.
    """

    def __init__(
        self,
        context: StepContext,
        step: Step,
        strategy: Strategy,
        *,
        exchange: GraphExchange | None = None,
        check_finite: bool,
    ) -> None:
        communicator = context.services.communicator
        super().__init__(communicator, step, parts=communicator.initial_size)
        self._services = context.services
        self._rows = context.rows
        self._account = context.account
        self._exchange = exchange
        self._check_finite = check_finite
        self._strategy = strategy
        self._local = LocalContribution(context.rows, context.header, step)
        self._recovery = StepRecovery(context, self._local)
        self._is_ready = self._exchange is not None

    @property
    def exchange(self) -> GraphExchange | None:
        """Buffers, for use by the next fit."""
        return self._exchange

    @property
    def finished(self) -> FinishedExchanges:
        exchange = self._exchange
        assert exchange is not None
        return FinishedExchanges.by(exchange)

    def prepare(self, sample: Callable[[], Any]) -> None:
        if self._step.layout is None:
            return
        self._connected()
        if not self._strategy.averages_gradients:
            self._step.trace()
        super().prepare(sample)

    def execute(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        step = self._step
        spans = self._recovery.begin()
        if decline:
            self._recovery.decline()
            spans = []
        own: list[np.ndarray] | None = None
        try:
            if self._is_fused(spans):
                exchange = self._begin(batch)
                inputs = self._rows.inputs(spans)
                if step.runs_eagerly:  # it calls the exchange itself, which is the operation
                    return step.fused(*inputs)
                return exchange.run(lambda: step.fused(*inputs))
            # The first step uses the functions that recovery needs: afterwards they are ready.
            if step.layout is None or not decline:
                self._local.idle(spans)
            own = self._local.contribution(spans)
            self._begin(batch)(*self._local.exchanged_of(own))
            self._is_ready = True
        except (keras_hooks.OpError, ft.PeerFailure, TrainingError) as error:
            self._recovery.complete(self._exchange, error)
            own = None
        assert self._exchange is not None
        kept = [] if step.sums_gradients else self._update_parts(own)
        return step.commit(
            [keras_hooks.constant(part) for part in (*kept, *self._exchange.result())]
        )

    def _is_fused(self, spans: list[Span]) -> bool:
        """Whether one graph around the exchange makes the step of *spans*."""
        if not self._is_ready or not spans or self._strategy.averages_gradients:
            return False
        # Slots follow from the first row of a span, so each span is computed by itself.
        return len(spans) == 1 or not self._step.has_slots

    def _update_parts(self, own: list[np.ndarray] | None) -> list[np.ndarray]:
        """Parts of the update that are not exchanged: *own*, or computed again if None."""
        if own is None:  # this rank may have received more rows
            own = self._local.contribution(self._account.have)
        if not self._strategy.averages_gradients:
            return own
        step = self._services.step
        self._services.faults.during("in-strategy")
        return averaged(own, lambda vector: self._strategy.average_gradients(step, vector))

    def _connected(self) -> GraphExchange:
        if self._exchange is None:
            self._exchange = self._services.make_exchange(self._local.exchanged, self._check_finite)
            self._step.connect(self._exchange)
        self._exchange.check_finite = self._check_finite
        return self._exchange

    def _begin(self, batch: GlobalBatch) -> GraphExchange:
        exchange = self._connected()
        lo, hi = batch.span
        exchange.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        return exchange
