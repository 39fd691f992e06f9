"""Decisions after an exchange whose sum no update can be made with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ft
from matex.errors import TrainingError
from matex.exchange import Layout, StepExchange
from matex.partition.spans import Span, size
from matex.steps.executors.step_context import StepContext
from matex.steps.nonfinite import StepRedo, nonfinite_error
from matex.steps.services import StepSource

__all__ = ["BadSums"]


Spoiled = Callable[[StepExchange], tuple[Layout, np.ndarray | None]]


def _sent(exchange: StepExchange) -> tuple[Layout, np.ndarray | None]:
    return exchange.layout, exchange.local if exchange.spoiled else None


class BadSums:
    """Decisions after sums with non-finite numbers, or over other samples than the step's.

    Args:
        context: objects of the run and of the running step, with a source that may have an
            explanation.
    """

    def __init__(self, context: StepContext) -> None:
        self._services = context.services
        self._account = context.account
        self._repair = context.repair
        self._source = context.source

    def decide_redo(
        self, exchange: StepExchange, error: TrainingError, spoiled: Spoiled = _sent
    ) -> StepRedo:
        """Way to make the step again after *error* of *exchange*; collective.

        Args:
            exchange: exchange of the sum.
            error: error that it raised.
            spoiled: function that returns this rank's contribution with its layout, None instead of
                one that is finite; what the exchange sent, by default.

        Raises:
            TrainingError: on every rank, if it is not made again.
        """
        redo = self.redo(exchange, guilty=exchange.spoiled)
        if redo is None:
            raise self.explained(exchange, error, spoiled)
        return redo

    def redo(self, exchange: StepExchange, *, guilty: bool) -> StepRedo | None:
        """Way to make the step of *exchange* again; None, on every rank, to stop. Collective.

        Args:
            exchange: exchange of the sum.
            guilty: whether this rank computed a non-finite value.
        """
        account = self._account
        self._repair.is_closed = True  # a newcomer would know nothing of it
        return self._services.nonfinite.redo(
            guilty=guilty,
            samples=size(account.have),
            fingerprint=account.fingerprint,
            header=exchange.header,
        )

    def explained(
        self, exchange: StepExchange, error: TrainingError, spoiled: Spoiled
    ) -> TrainingError:
        """Exception that names the cause of *error*; collective, all ranks get here together.

        For the arguments see :meth:`decide_redo`.
        """
        step = self._services.step
        if not exchange.header.nonfinite:
            return _misfit(error, self._source, self._account.have, step=step)
        layout, contribution = spoiled(exchange)
        why_not = self._services.nonfinite.why_not
        communicator = self._services.communicator
        return nonfinite_error(communicator, layout, contribution, step=step, why_not=why_not)


def _misfit(
    error: TrainingError, source: StepSource, have: list[Span], *, step: int
) -> TrainingError:
    """Error for a sum over other samples than the step's; equal on every rank that had some.

    Args:
        error: error of the exchange.
        source: source of the batches, which may have an explanation.
        have: spans that this rank computed.
        step: number of the step.
    """
    reason = source.explanation
    if reason and not have:
        # The other ranks may agree, and go on: this rank has no part in their sum.
        ft.fail_stop(f"step {step}: {reason}")
    return TrainingError(f"step {step}: {reason}") if reason else error
