"""Steps made by virtual workers, whose sums have the same bits on any number of ranks.

A batch is cut into as many parts as there are virtual workers, whatever the ranks: the graph that
computes a part, and its shape, never depend on them. A rank computes the parts of its virtual
workers one after the other, and the sum of all is exact (:mod:`matex.exchange.exact_sums`), so it
has one set of bits. Two exchanges make it: of the largest magnitudes, and of the rounded sums.

EasyScale (Li et al., SC 2023) fixes the order of adding instead; here the order is free, and any
allreduce will do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import NotShareable, TrainingError
from matex.exchange import Header, HostExchange, Layout
from matex.exchange.exact_sums import add_rounded, anchors, tops
from matex.exchange.layout import Segment
from matex.partition.spans import Span, size, split
from matex.sources.interface import GlobalBatch
from matex.steps.control import Control
from matex.steps.maker import Made
from matex.steps.nonfinite import nonfinite_error
from matex.steps.own_rows import OwnRows
from matex.steps.recovery import misfit
from matex.steps.row_recovery import RowRecovery
from matex.steps.separability import find_inseparable
from matex.steps.services import StepServices, StepSource
from matex.steps.step import Step
from matex.strategies import Traffic

__all__ = ["VirtualUpdate", "parts_of_workers"]


class _Exchanges(NamedTuple):
    """The two exchanges of a step, in their order."""

    tops: HostExchange
    sums: HostExchange


class VirtualUpdate:
    """Makes steps of one update by the contributions of virtual workers. The engine's maker.

    A contribution is kept until the step is done. When a rank dies the survivors compute those
    of its virtual workers, and make both exchanges again; only where somebody has finished the
    last one, the step stands, and who missed the sum gets it.

    Args:
        services: ranks, faults and watch of the run.
        source: source of the batches.
        rows: rows that this rank computes, those of whole virtual workers.
        taken_over: account of the rows, and repair.
        step: step of the model.
        check_finite: whether the sums are looked through for numbers that are not finite.

    Raises:
        NotShareable: the step runs eagerly, so Python would count its parts.
    """

    may_decline = False
    exchange = None  # the next fit makes its own

    def __init__(
        self,
        services: StepServices,
        source: StepSource,
        rows: OwnRows,
        taken_over: RowRecovery,
        step: Step,
        *,
        check_finite: bool,
    ) -> None:
        if step.runs_eagerly:
            raise NotShareable("virtual workers want a step that does not run eagerly")
        self._services = services
        self._communicator = services.communicator
        self._source = source
        self._rows = rows
        self._taken_over = taken_over
        self._step = step
        self._check_finite = check_finite
        self._contributions: dict[int, np.ndarray] = {}
        self._running: HostExchange | None = None
        assert step.layout is not None
        self._layout = _in_float64(step.layout)
        self._starts = _starts(self._layout)
        self._exchanges = self._made_exchanges()

    def _made_exchanges(self) -> _Exchanges:
        shape = (self._rows.workers, len(self._starts))
        dtype = str(self._own_layout.dtype)
        largest = Layout(gradients=(), means=(), sums=(Segment("largest", shape, dtype),))
        make = self._services.make_exchange
        return _Exchanges(make(largest, False), make(self._layout, self._check_finite))

    @property
    def _own_layout(self) -> Layout:
        layout = self._step.layout
        assert layout is not None
        return layout

    @property
    def made(self) -> Made:
        exchanges = self._exchanges
        return Made(
            exchanges.sums.header,
            sum(exchange.seconds for exchange in exchanges),
            Traffic(len(exchanges), sum(exchange.bytes for exchange in exchanges)),
        )

    def prepare(self, sample: Callable[[], Any]) -> None:
        rows = sample()
        if rows is not None:
            denominators = self._step.denominators(rows)
            control = Control(1.0, 0.0, 1.0, Header(), [(0, 1)], denominators)
            self._step.contribution(rows, control.array())

    def check_separable(self, batch: GlobalBatch) -> None:
        found = find_inseparable(self._step, batch, alone=self._rows.workers == 1)
        if not self._communicator.agree(not found):
            raise NotShareable(found or "another rank found that its train_step does not add up")

    def make(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        self._services.nonfinite.begin()
        self._taken_over.begin()
        self._contributions.clear()
        while True:
            try:
                self._attempt(batch)
                break
            except (ft.PeerFailure, TrainingError) as error:
                started = time.perf_counter()
                if self._recovered(batch, error):
                    break
                self._taken_over.replay.seconds += time.perf_counter() - started
        dtype = self._own_layout.dtype
        parts = [part.astype(dtype) for part in self._exchanges.sums.result]
        return self._step.commit([keras_hooks.constant(part) for part in parts])

    def _attempt(self, batch: GlobalBatch) -> None:
        """Make both exchanges of the step, with the contributions of this rank; collective."""
        parts = parts_of_workers(batch.span, self._rows.workers)
        have = self._taken_over.have
        own = [number for number, part in enumerate(parts) if _is_within(part, have)]
        self._compute(batch, {n: parts[n] for n in own if n not in self._contributions})
        header = Header(
            samples=float(size(have)), fingerprint=float(batch.fingerprint(have) if have else 0)
        )
        found = np.zeros((self._rows.workers, len(self._starts)), self._own_layout.dtype)
        for number in own:
            found[number] = tops(self._contributions[number], self._starts)
        auxiliary = np.append(found, np.zeros(len(Header._fields), found.dtype))
        everywhere = self._exchanged(self._exchanges.tops, batch, header, [auxiliary])[-1]
        anchored = anchors(everywhere[: found.size].reshape(found.shape)[: len(parts)])
        total = np.zeros(self._layout.size, np.float64)
        for number in own:
            add_rounded(total, self._contributions[number], self._starts, anchored)
        self._exchanged(self._exchanges.sums, batch, header, self._layout.views(total))

    def _compute(self, batch: GlobalBatch, missing: dict[int, Span]) -> None:
        """Compute the contributions of virtual workers, given their parts of *batch*; local."""
        if not missing:
            return
        rows, start = self._rows.rows(list(missing.values())), 0
        for number, part in missing.items():
            end = start + size([part])
            of_part = rows
            if len(missing) > 1:
                of_part = keras_hooks.map_structure(_cut(start, end), rows)
            parts = self._step.contribution(of_part, self._rows.control([part]))
            vector = np.zeros(self._layout.size, self._own_layout.dtype)
            for view, value in zip(self._layout.views(vector), parts, strict=True):
                np.copyto(view, np.asarray(value))
            self._contributions[number] = vector
            start = end

    def _exchanged(
        self, exchange: HostExchange, batch: GlobalBatch, header: Header, parts: list[np.ndarray]
    ) -> list[np.ndarray]:
        """The sums of *parts*, the last of which gets the *header*; collective."""
        lo, hi = batch.span
        self._rows.put_header(parts[-1], header)
        self._running = exchange
        exchange.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        sums = exchange(*parts)
        self._running = None
        return sums

    # When it fails.

    def _recovered(self, batch: GlobalBatch, error: ft.PeerFailure | TrainingError) -> bool:
        """Whether the step stands after all; if not, it is to be made again. Collective.

        Raises:
            TrainingError: alike on every rank.
        """
        exchange, self._running = self._running, None
        if exchange is None:  # the source's
            raise error
        if isinstance(error, TrainingError):
            self._judge(batch, exchange, error)
            return False
        before = size(self._taken_over.have)
        if self._taken_over.recover(ends_step=exchange is self._exchanges.sums):
            exchange.check()
            return True
        self._taken_over.have = self._rows.assigned(batch.span)
        self._taken_over.replay.recomputed += max(0, size(self._taken_over.have) - before)
        return False

    def _judge(self, batch: GlobalBatch, exchange: HostExchange, error: TrainingError) -> None:
        """See how the step is made again after a sum that was not right; collective.

        Raises:
            TrainingError: alike on every rank, it is not.
        """
        have, step = self._taken_over.have, self._services.faults.step
        self._taken_over.is_closed = True  # a newcomer would know nothing of it
        verdict = self._services.nonfinite.judge(
            guilty=exchange.spoiled,
            samples=size(have),
            fingerprint=batch.fingerprint(have) if have else 0,
            header=exchange.header,
        )
        if verdict is None:
            if not exchange.header.nonfinite:
                raise misfit(error, self._source, have, step=step)
            spoiled = self._spoiled() if exchange.spoiled else None
            raise nonfinite_error(self._communicator, self._layout, spoiled, step=step)
        if verdict.anew:
            self._taken_over.have = self._rows.assigned(batch.span)
        if exchange.spoiled:
            self._contributions.clear()

    def _spoiled(self) -> np.ndarray:
        """A contribution that is not finite; what was sent, where the fault was injected there."""
        for vector in self._contributions.values():
            if not np.isfinite(vector).all():
                return vector
        return self._exchanges.sums.local


def parts_of_workers(span: Span, workers: int) -> list[Span]:
    """The rows of each virtual worker in the step [lo, hi), where it has some; pure.

    A step without rows, which Keras takes like any other, is one part.
    """
    if span[0] == span[1]:
        return [span]
    return [part for part in split(span, workers) if part[0] < part[1]]


def _is_within(part: Span, spans: Sequence[Span]) -> bool:
    return any(lo <= part[0] and part[1] <= hi for lo, hi in spans)


def _cut(start: int, end: int) -> Callable[[Any], Any]:
    return lambda tensor: keras_hooks.cut_rows(tensor, start, end)


def _in_float64(layout: Layout) -> Layout:
    """*layout* with all of its numbers in float64."""
    gradients, means, sums = (
        tuple(segment._replace(dtype="float64") for segment in segments)
        for segments in (layout.gradients, layout.means, layout.sums)
    )
    return Layout(gradients=gradients, means=means, sums=sums)


def _starts(layout: Layout) -> list[int]:
    """The index at which each segment of *layout* begins, and the header; empty ones left out."""
    cuts = np.cumsum([layout.offsets[-2], *layout.auxiliary_sizes])
    starts = {*layout.offsets[:-1], *cuts.tolist()}
    return sorted(start for start in starts if start < layout.size)
