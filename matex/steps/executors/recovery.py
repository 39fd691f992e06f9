"""Completion of a step by the survivors after its exchange has failed."""

from __future__ import annotations

import time

import numpy as np

import ft
from matex.errors import TrainingError
from matex.exchange import GraphExchange, Layout, StepExchange, header_of
from matex.partition.row_pieces import missing_rows
from matex.partition.spans import Span, size
from matex.steps.declined import StepDeclined
from matex.steps.executors.bad_sums import BadSums
from matex.steps.executors.step_context import StepContext
from matex.steps.local_contribution import LocalContribution

__all__ = ["StepRecovery"]


class StepRecovery:
    """Computes the rows that dead ranks left undone, and replays the exchange. One per executor.

    Args:
        context: objects of the run and of the running step.
        local: contribution of this rank.
    """

    def __init__(self, context: StepContext, local: LocalContribution) -> None:
        self._nonfinite = context.services.nonfinite
        self._rows = context.rows
        self._header = context.header
        self._account = context.account
        self._repair = context.repair
        self._local = local
        self._bad_sums = BadSums(context)
        self._pieces_are_void = self._declined = False

    def begin(self) -> list[Span]:
        """Start a new step; return the rows that this rank computes. Local."""
        self._nonfinite.begin()
        self._repair.begin()
        self._pieces_are_void = self._declined = False
        return self._account.begin()

    def decline(self) -> None:
        """Contribute nothing, because training should stop here; called after :meth:`begin`. Local.

        If all ranks decline, :meth:`complete` raises :class:`StepDeclined`; else the step is made
        again with all of its samples, and training stops after it.
        """
        self._account.have = []

    def complete(self, exchange: GraphExchange | None, error: BaseException) -> None:
        """Complete the failed exchange; collective over the survivors.

        Afterwards the exchange holds the result of a whole step, equal on every rank.

        Raises:
            StepDeclined: on every rank; no update was made.
            TrainingError: on every rank; no update was made.
        """
        cause = error if exchange is None else exchange.error
        while exchange is not None and isinstance(cause, ft.PeerFailure | TrainingError):
            died = isinstance(cause, ft.PeerFailure)
            if not died and self._is_declined(exchange):
                raise StepDeclined
            finished = died and self._repair.recover()
            started = time.perf_counter()
            try:
                if finished:
                    exchange.check()
                    return
                if died or self._learn_of_decline(exchange):
                    vector: np.ndarray | None = self._add_missing_rows(exchange)
                else:
                    vector = self._second_attempt(exchange)
                if vector is not None:
                    exchange.replay(vector)
                    return
            except (ft.PeerFailure, TrainingError) as again:
                cause = again
                continue
            finally:
                self._account.death_cost.seconds += time.perf_counter() - started
            assert isinstance(cause, TrainingError)
            raise self._bad_sums.explained(exchange, cause, self._spoiled) from None
        raise error if cause is None else cause

    def _is_declined(self, exchange: GraphExchange) -> bool:
        """Whether every rank declined the step, by its sum."""
        header = exchange.header
        return header.is_declined and header.samples == 0 != exchange.expected[0]

    def _learn_of_decline(self, exchange: GraphExchange) -> bool:
        """Note that samples are missing because a rank declined; return whether that is news.

        So only the first sum of a step that falls short is put down to it.
        """
        header, before = exchange.header, self._declined
        short = header.samples < exchange.expected[0] and not header.nonfinite
        self._declined = before or bool(header.stop and short)
        return self._declined and not before

    def _second_attempt(self, exchange: GraphExchange) -> np.ndarray | None:
        """Decide on a second attempt at a step with non-finite numbers; collective.

        What *exchange* must come to, and the rows of this rank, are those of that attempt then.

        Returns:
            This rank's vector; None, on every rank, if no second attempt is made.
        """
        redo = self._bad_sums.redo(exchange, guilty=_is_guilty(exchange))
        if redo is None:
            return None
        # Pieces of before are of no use, now or if a rank dies in this attempt.
        self._pieces_are_void = True
        if redo.anew:
            return self._add_missing_rows(exchange)
        batch = self._rows.running
        layout = self._local.exchanged
        lo, hi = batch.span
        total, fingerprint = hi - lo, batch.fingerprint([batch.span])
        exchange.expected = (total - redo.samples, fingerprint - redo.fingerprint)
        if _is_guilty(exchange) and redo.samples:
            self._account.have = []
            vector = exchange.packed(self._local.sent([]))
        elif _is_guilty(exchange):
            vector = exchange.packed(self._local.sent(self._account.have))
        else:
            vector = exchange.local.copy()
            if redo.samples:
                layout.averaged(vector)[:] *= total / (total - redo.samples)
        auxiliary = layout.views(vector)[-1]
        self._header.put(auxiliary, header_of(auxiliary))
        return vector

    def _add_missing_rows(self, exchange: GraphExchange) -> np.ndarray:
        """Compute this rank's part of the rows that dead ranks left undone. Local.

        What *exchange* must come to, and the rows of this rank, are those of the whole step then.

        Returns:
            This rank's vector, with these rows.
        """
        batch = self._rows.running
        lo, hi = batch.span
        exchange.expected = (hi - lo, batch.fingerprint([batch.span]))
        wanted = self._account.assigned()
        (missing,), anew = missing_rows([wanted], [self._account.have])
        vector = exchange.local.copy()
        if anew or self._pieces_are_void or lo == hi:
            vector[:] = 0
            missing = wanted
        self._pieces_are_void = False
        if missing:
            vector += exchange.packed(self._local.sent(missing))
            self._account.death_cost.recomputed += size(missing)
        self._account.have = wanted
        auxiliary = exchange.layout.views(vector)[-1]
        self._header.put(auxiliary, header_of(auxiliary))
        return vector

    def _spoiled(self, exchange: StepExchange) -> tuple[Layout, np.ndarray | None]:
        """This rank's contribution with its layout; None instead if it is finite."""
        if not exchange.spoiled and _is_guilty(exchange):  # by gradients, which were not sent
            layout = self._local.layout
            return layout, layout.packed(self._local.contribution(self._account.have))
        return exchange.layout, exchange.local if exchange.spoiled else None


def _is_guilty(exchange: StepExchange) -> bool:
    """Whether this rank computed a non-finite value, in the exchanged part or in its gradients."""
    return exchange.spoiled or bool(header_of(exchange.layout.views(exchange.local)[-1]).nonfinite)
