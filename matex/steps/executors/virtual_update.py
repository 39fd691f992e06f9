"""Steps made by virtual workers, whose sums are bit-identical on any number of ranks.

A batch is divided into as many parts as there are virtual workers, independently of the ranks: so
is the graph that computes a part, and its shape. A rank computes the parts of its virtual workers
one after the other, and all parts are summed along a binary tree over the workers, which does not
depend on the ranks. The same graph always makes the update.

EasyScale (Li et al., SC 2023), VirtualFlow (Or et al., MLSys 2022).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import NotShareable, TrainingError
from matex.exchange import GraphExchange, Header, Layout, StepExchange, header_of
from matex.exchange.tree import TreeExchange
from matex.partition.spans import Span, size
from matex.partition.worker_tree import Node, maximal
from matex.sources.interface import GlobalBatch
from matex.steps.declined import StepDeclined
from matex.steps.executors.bad_sums import BadSums
from matex.steps.executors.executor import FinishedExchanges
from matex.steps.executors.separability_checks import SeparabilityChecks
from matex.steps.executors.step_context import StepContext
from matex.steps.executors.worker_sums import Parts, WorkerSums
from matex.steps.step import Step

__all__ = ["VirtualUpdate"]


class _WorkerDivision(NamedTuple):
    """The division of a step's virtual workers among the ranks."""

    parts: list[Span]
    """Samples of each worker that has any, in worker order."""
    nodes: list[list[Node]]
    """Subtrees of each member of the world, in member order."""


class VirtualUpdate(SeparabilityChecks):
    """Executes steps of one update, summed from the contributions of virtual workers.

    Sums of subtrees are kept until the step is done. If a rank dies the survivors compute the
    subtrees of its virtual workers, and exchange again; only if some rank has the sum already, the
    step stands, and ranks that lack the sum get it.

    Args:
        context: objects of the run and of the running step, divided in whole virtual workers.
        step: step of the model.
        check_finite: whether the sums are checked for NaN and infinity.

    Raises:
        NotShareable: the step runs eagerly, so Python code would run once for each part.
    """

    exchange = None  # the next fit makes its own

    def __init__(self, context: StepContext, step: Step, *, check_finite: bool) -> None:
        if step.runs_eagerly:
            raise NotShareable(
                "virtual workers (--deterministic) want a step that is a graph. "
                "Received: run_eagerly=True; compile the model without it"
            )
        services, self._division = context.services, context.division
        super().__init__(services.communicator, step, parts=self._division.workers)
        self._services = services
        self._bad_sums = BadSums(context)
        self._header = context.header
        self._account = context.account
        self._repair = context.repair
        self._is_first = True
        self._running: StepExchange | None = None
        layout = step.layout
        assert layout is not None
        self._layout: Layout = layout
        self._check_finite = check_finite
        self._last: StepExchange | None = None
        self._sums = WorkerSums(
            context.rows, step, self._division.workers, context.source.most_rows
        )

    @cached_property
    def _pair(self) -> GraphExchange:
        """Exchange of two ranks with one subtree each: two numbers have one order only."""
        return self._services.make_exchange(self._layout, self._check_finite)

    @cached_property
    def _tree(self) -> TreeExchange:
        """Exchange of any other number of subtrees."""
        services = self._services
        return TreeExchange(
            services.communicator,
            self._layout,
            faults=services.faults,
            check_finite=self._check_finite,
        )

    @property
    def finished(self) -> FinishedExchanges:
        last = self._last
        assert last is not None
        return FinishedExchanges.by(last)

    def execute(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        self._services.nonfinite.begin()
        self._repair.begin()
        self._account.begin()
        self._sums.forget()
        self._is_first = True
        total: Parts | None = None
        while True:
            try:
                total = self._attempt(batch)
                break
            except (keras_hooks.OpError, ft.PeerFailure, TrainingError) as error:
                started = time.perf_counter()
                self._is_first = False
                if self._recovered(error):
                    break
                self._account.death_cost.seconds += time.perf_counter() - started
        self._sums.forget()
        if total is None:
            assert self._last is not None
            total = [keras_hooks.constant(part) for part in self._last.result()]
        if decline and self.finished.header.is_declined:
            raise StepDeclined
        return self._step.commit(total)

    def _attempt(self, batch: GlobalBatch) -> Parts | None:
        """Sum the step, with the contributions of this rank's virtual workers; collective.

        Returns:
            Sums as tensors; None if they are in the exchange.
        """
        total = None
        parts, nodes = self._divided(batch.span)
        world = self._communicator.world
        self._sums.complete(parts, nodes[world.ranks.index(world.rank)])
        is_pair = world.size <= 2 and all(len(found) == 1 for found in nodes)
        self._running = self._last = self._pair if is_pair else self._tree
        lo, hi = batch.span
        self._running.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        if is_pair:
            (sent,) = self._sums.by_node.values()
            if not self._is_first:  # the leader and its requests may have changed
                *gradients, auxiliary = sent
                sent = [*gradients, keras_hooks.constant(self._with_header(auxiliary))]
            total = self._pair.run(lambda: self._pair.in_graph(sent))
        else:
            header = header_of(self._with_header(np.zeros(len(Header._fields))))
            vectors = self._sums.vectors(self._layout)
            self._tree.exchange(vectors, header, nodes=nodes, workers=len(parts))
        self._running = None
        return total

    def _with_header(self, auxiliary: Any) -> np.ndarray:
        """Copy of *auxiliary* with the header of this rank."""
        account, last = self._account, np.array(auxiliary)
        header = Header(samples=float(size(account.have)), fingerprint=float(account.fingerprint))
        self._header.put(last, header)
        return last

    def _divided(self, span: Span) -> _WorkerDivision:
        """Parts of the step's workers, and the subtrees that each rank computes."""
        parts = self._division.parts_of_workers(span)
        nodes = []
        for rank in self._communicator.world.ranks:
            takes_part = rank in self._communicator.pending.expected
            spans = self._division.assigned(span, rank) if takes_part else []
            own = (number for number, part in enumerate(parts) if _is_within(part, spans))
            nodes.append(maximal(own, len(parts)))
        return _WorkerDivision(parts, nodes)

    # When it fails.

    def _recovered(self, error: BaseException) -> bool:
        """Whether the step stands after all; if not, it must be made again. Collective.

        Raises:
            TrainingError: on every rank.
        """
        exchange, self._running = self._running, None
        if exchange is None:  # an error of the script or of the source
            raise error
        cause = exchange.error
        if isinstance(cause, TrainingError):
            self._decide(exchange, cause)
            return False
        if not isinstance(cause, ft.PeerFailure):
            raise error if cause is None else cause
        if self._repair.recover():
            exchange.check()
            return True
        self._account.take_over()
        return False

    def _decide(self, exchange: StepExchange, error: TrainingError) -> None:
        """Decide how the step is made again after a wrong sum; collective.

        Raises:
            TrainingError: on every rank, if it is not made again.
        """
        if self._bad_sums.decide_redo(exchange, error, self._spoiled).anew:
            self._account.divide_anew()
        if exchange.spoiled:
            self._sums.forget()

    def _spoiled(self, exchange: StepExchange) -> tuple[Layout, np.ndarray | None]:
        """Non-finite values of this rank: a sum, or a message that a fault changed."""
        if not exchange.spoiled:
            return self._layout, None
        for vector in self._sums.vectors(self._layout).values():
            if not np.isfinite(vector).all():
                return self._layout, vector
        return self._layout, exchange.local


def _is_within(part: Span, spans: Sequence[Span]) -> bool:
    return any(lo <= part[0] and part[1] <= hi for lo, hi in spans)
