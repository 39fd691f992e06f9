"""One fit: epochs of steps over the shared samples, and recovery inside a step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import ft
from matex import keras_hooks
from matex.data import Batches
from matex.data.prefetch import Prefetch
from matex.errors import NonFiniteGradients, TrainingError
from matex.exchange import Header, HostExchange, Layout, header_of
from matex.partition import Order, Span, assigned, difference
from matex.step import Control, Step

__all__ = ["Training"]

_BLAME_BYTES = 512

Traced = tuple[Step, HostExchange | None]


class Training:
    """What ``fit`` iterates over in place of Keras's own iterator, and makes its steps.

    Args:
        communicator, faults: of the run.
        make_exchange: called with the layout, and whether to look for what is not finite.
        model: built, with equal weights on all ranks.
        batches: all samples; every rank sees the whole set and reads its rows.
        batch_size: of the global batch.
        seed: of the orders of samples.
        first_epoch, cursor: where training starts, ``cursor`` in samples of that epoch.
        after_step: called with this object after each step, between steps.
        traced: :attr:`traced` of an earlier fit of the same compiled model, to use again.
        on_epoch_start: called when the first epoch's metrics have just been reset.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        batches: Batches,
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        faults: ft.Injector,
        make_exchange: Callable[[Layout, bool], HostExchange],
        first_epoch: int,
        cursor: int,
        on_epoch_start: Callable[[], None],
        after_step: Callable[[Training], None],
        traced: Traced | None = None,
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._batches = batches
        self._reader = Prefetch(batches)
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._faults = faults
        self._make_exchange = make_exchange
        self._on_epoch_start = on_epoch_start
        self._after_step = after_step
        self._next_epoch = first_epoch
        self._step, self._exchange = traced or (Step(model, batches.signature), None)
        self._have: list[Span] = []
        self._ready = traced is not None
        self.seed = seed
        self.epoch = first_epoch
        self.cursor = cursor
        self.order = self._order(first_epoch)
        self.stop_wanted = False
        self.stop_agreed = False
        self.samples = 0
        self.step_s = 0.0
        self.exchange_s = 0.0

    def _order(self, epoch: int) -> Order:
        return Order(
            samples=self._batches.samples,
            batch_size=self._batch_size,
            shuffle=self._shuffle,
            seed=self.seed,
            epoch=epoch,
        )

    @property
    def traced(self) -> Traced:
        """The step's functions and buffers, which outlive a fit."""
        return self._step, self._exchange

    # The face that Keras's fit sees.

    @property
    def num_batches(self) -> int:
        """Steps of an epoch."""
        return self.order.steps

    def reset(self) -> None:
        """Keras calls it before the first epoch."""

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Around an epoch; nothing here runs out early."""
        yield

    def __iter__(self) -> Iterator[tuple[int, int, Training]]:
        if self.order.epoch != self._next_epoch:
            self.order = self._order(self._next_epoch)
            self.cursor = 0
        self.epoch = self._next_epoch
        self._next_epoch += 1
        self._on_epoch_start()
        at_once = self._model.steps_per_execution
        while self.cursor < self.order.samples:
            first = self.cursor // self._batch_size
            yield first, min(first + at_once, self.num_batches) - 1, self

    def close(self) -> None:
        """After the last step: end the thread that reads ahead. Local."""
        self._reader.close()

    def run(self) -> dict[str, Any]:
        """The next ``steps_per_execution`` steps; collective. The last one's logs."""
        logs: dict[str, Any] = {}
        for _ in range(self._model.steps_per_execution):
            if self.cursor >= self.order.samples or self.stop_agreed:
                break
            logs = self._run_step(self.order.step(self.cursor))
        return logs

    # One step.

    def _run_step(self, span: Span) -> dict[str, Any]:
        started = time.perf_counter()
        self._faults.at("compute")
        logs = self._make_step(span)
        exchange = self._exchange
        assert exchange is not None
        header = exchange.header
        self.stop_agreed = header.stop > 0
        self.samples = round(header.samples)
        self.cursor = span[1]
        self.step_s = time.perf_counter() - started
        self.exchange_s = exchange.seconds
        self._after_step(self)
        return logs

    def _make_step(self, span: Span) -> dict[str, Any]:
        spans = self._assigned(span)
        self._have = spans
        try:
            if self._ready and spans:
                exchange = self._begin(span)
                inputs = self._inputs(span, spans)
                return exchange.run(lambda: self._step.fused(*inputs))
            # The first step goes by the parts that recovery needs: afterwards they are ready.
            local = self._contribution(span, spans)
            self._begin(span)(*local)
            self._ready = True
        except (tf.errors.OpError, ft.PeerFailure, TrainingError) as error:
            self._repair(span, error)
        assert self._exchange is not None
        return self._step.commit([tf.constant(part) for part in self._exchange.result])

    def _assigned(self, span: Span) -> list[Span]:
        pending = self._communicator.pending
        return assigned(span, pending.expected, pending.lost, self._communicator.world.rank)

    def _begin(self, span: Span) -> HostExchange:
        if self._exchange is None:
            check_finite = not keras_hooks.scales_loss(self._model.optimizer)
            self._exchange = self._make_exchange(self._layout, check_finite)
            self._step.connect(self._exchange)
        fingerprint = self.order.fingerprint([span])
        self._exchange.begin(samples=span[1] - span[0], fingerprint=fingerprint)
        return self._exchange

    @property
    def _layout(self) -> Layout:
        if self._step.layout is None:  # run_eagerly, and no sample for this rank yet
            raise TrainingError(
                "with run_eagerly every rank needs at least one sample of the first step; "
                f"received a batch of {self._batch_size} for {self._communicator.world.size} ranks"
            )
        return self._step.layout

    def _inputs(self, span: Span, spans: list[Span]) -> tuple[Any, np.ndarray]:
        """The batch of *spans* and what its contribution is told."""
        indices = self.order.indices(spans)
        header = Header(
            samples=float(len(indices)),
            fingerprint=float(self.order.fingerprint(spans)),
            stop=float(self.stop_wanted),
            learning_rate=float(self._communicator.world.is_leader),
        )
        weight = len(indices) / (span[1] - span[0])
        control = Control(weight=weight, salt=float(spans[0][0] - span[0]), header=header)
        return self._reader.rows(indices, then=lambda: self._next_indices(span)), control.array()

    def _next_indices(self, span: Span) -> np.ndarray:
        """What this rank reads in the step after *span* if nobody dies; none across epochs."""
        world = self._communicator.world
        following = self.order.step(span[1])
        return self.order.indices(assigned(following, world.ranks, (), world.rank))

    def _contribution(self, span: Span, spans: list[Span]) -> list[np.ndarray]:
        """The parts that *spans* add to the step, computed outside the fused graph."""
        if spans:
            parts = self._step.contribution(*self._inputs(span, spans))
            return [np.asarray(part) for part in parts]
        layout = self._layout
        parts = [np.zeros(shape, layout.dtype) for shape in layout.shapes]
        self._put_header(parts[-1], Header())
        return parts

    def _put_header(self, tail: np.ndarray, header: Header) -> None:
        """Make *tail* one contribution of this rank, whatever it was added up from."""
        rate = keras_hooks.learning_rate_variable(self._model.optimizer)
        leads = self._communicator.world.is_leader
        tail[-len(Header._fields) :] = header._replace(
            stop=float(self.stop_wanted),
            nonfinite=0.0,
            learning_rate=float(rate.numpy()) if leads and rate is not None else 0.0,
            one=1.0,
        )

    # When it fails.

    def _repair(self, span: Span, error: BaseException) -> None:
        """Bring the failed exchange to its end; collective over the survivors.

        Afterwards the exchange holds the result of a whole step, the same on every rank.
        """
        exchange = self._exchange
        cause = error if exchange is None else exchange.error
        while isinstance(cause, ft.PeerFailure):
            assert exchange is not None
            if self._communicator.recover().finished:
                exchange.check()
                return
            try:
                exchange.replay(self._completed(span))
                return
            except ft.PeerFailure as again:
                cause = again
            except TrainingError as wrong:
                cause = wrong
        if isinstance(cause, TrainingError):
            raise self._explained(cause) from None
        raise error if cause is None else cause

    def _completed(self, span: Span) -> np.ndarray:
        """What this rank has for the step, and its piece of what the dead left undone."""
        exchange = self._exchange
        assert exchange is not None
        wanted = self._assigned(span)
        missing = difference(wanted, self._have)
        vector = exchange.local.copy()
        if missing is None:  # a second death moved the pieces: start over
            vector[:] = 0
            missing = wanted
        if missing:
            vector += exchange.packed(self._contribution(span, missing))
        self._have = wanted
        tail = self._layout.views(vector)[-1]
        self._put_header(tail, header_of(tail))
        return vector

    def _explained(self, error: TrainingError) -> TrainingError:
        """Name the rank and the tensors; collective, all ranks get here together."""
        exchange = self._exchange
        assert exchange is not None
        if not exchange.header.nonfinite:
            return error
        mine = ", ".join(self._layout.blame(exchange.local)) if exchange.spoiled else ""
        row = np.zeros(_BLAME_BYTES, np.uint8)
        text = mine.encode()[:_BLAME_BYTES]
        row[: len(text)] = np.frombuffer(text, np.uint8)
        gathered = self._communicator.allgather(row)
        guilty = {
            rank: bytes(line).rstrip(b"\0").decode(errors="replace")
            for rank, line in zip(gathered.ranks, gathered.rows, strict=True)
            if line.any()
        }
        names = "; ".join(f"rank {rank}: {what}" for rank, what in guilty.items())
        return NonFiniteGradients(
            f"step {self._faults.step} has gradients that are not finite: {names}. "
            "No weight was changed by this step; look at the learning rate and at those samples"
        )
