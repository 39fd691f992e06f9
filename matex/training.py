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
from matex.blame import blame
from matex.errors import NotShareable, TrainingError
from matex.exchange import HostExchange, Layout, header_of
from matex.partition import Span, difference
from matex.share import Share
from matex.source import GlobalBatch, Source
from matex.step import Step
from matex.strategies import Strategy, Sync, Traffic
from matex.trial import problem

__all__ = ["Training"]

Traced = tuple[Step, HostExchange | None]


class Training:
    """What ``fit`` iterates over in place of Keras's own iterator, and makes its steps.

    Args:
        communicator, faults: of the run.
        make_exchange: called with the layout, and whether to look for what is not finite.
        model: built, with equal weights on all ranks.
        source: of the global batches; every rank has the whole of it and takes its rows.
        first_epoch, cursor: where training starts, ``cursor`` in samples of that epoch.
        after_step: called with this object after each step, between steps.
        rate_factor: by what the learning rate is multiplied, after so many epochs.
        strategy: how ranks share the work; synchronous averaging without it.
        traced: :attr:`traced` of an earlier fit of the same compiled model, to use again.
        on_epoch_start: called when the first epoch's metrics have just been reset.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        source: Source,
        *,
        faults: ft.Injector,
        make_exchange: Callable[[Layout, bool], HostExchange],
        first_epoch: int,
        cursor: int,
        on_epoch_start: Callable[[], None],
        after_step: Callable[[Training], None],
        rate_factor: Callable[[float], float] = lambda epochs_done: 1.0,
        strategy: Strategy | None = None,
        traced: Traced | None = None,
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._source = source
        self._faults = faults
        self._make_exchange = make_exchange
        self._on_epoch_start = on_epoch_start
        self._after_step = after_step
        self._rate_factor = rate_factor
        self._strategy: Strategy = strategy or Sync()
        self._next_epoch = first_epoch
        self._step, self._exchange = traced or (self.new_step(model, source), None)
        self._sums = self._step.sums_gradients
        self._share = Share(communicator, model, self._step)
        self._have: list[Span] = []
        self._ready = self._exchange is not None
        self.epoch = first_epoch
        self.cursor = self._start = cursor
        self.stop_agreed = False
        self.samples = 0
        self.step_s = 0.0
        self.exchange_s = 0.0
        self.sent = Traffic()

    @staticmethod
    def new_step(model: Any, source: Source, **options: Any) -> Step:
        """Trace the step of *model* on batches of *source*; local. *options* are those of Step.

        Raises:
            NotShareable: it cannot be cut at its optimizer.
        """
        return Step(model, source.signature, as_data=source.as_data, **options)

    @property
    def stop_wanted(self) -> bool:
        """Whether this rank wants training to stop; the others learn of it in the next step."""
        return self._share.stop_wanted

    @stop_wanted.setter
    def stop_wanted(self, wanted: bool) -> None:
        self._share.stop_wanted = wanted

    @property
    def traced(self) -> Traced:
        """The step's functions and buffers, which outlive a fit."""
        return self._step, self._exchange

    def begin_at(self, epoch: int) -> None:
        """Before the first epoch: let it be *epoch*."""
        self._next_epoch = epoch

    @property
    def samples_in_epoch(self) -> int | None:
        """Where known beforehand."""
        return self._source.samples

    @property
    def epoch_is_whole(self) -> bool:
        """Whether nothing of the running epoch was left out by a stop."""
        samples = self._source.samples
        return self.cursor == samples or (samples is None and not self.stop_agreed)

    @property
    def samples_taken(self) -> int:
        """Of the running step, as it should be made of."""
        lo, hi = self._share.current.span
        return hi - lo

    @property
    def mark(self) -> int:
        """Of what has been trained on so far: see :class:`matex.source.Source`."""
        return self._source.mark

    # The face that Keras's fit sees.

    @property
    def num_batches(self) -> int | None:
        """Steps of an epoch, where known."""
        return self._source.num_batches

    def reset(self) -> None:
        """Keras calls it before the first epoch."""
        self._source.reset()

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        """Around an epoch."""
        return self._source.catch_stop_iteration()

    def __iter__(self) -> Iterator[tuple[int, int, Training]]:
        self.epoch, self.cursor = self._next_epoch, self._start
        self._next_epoch += 1
        self._start = 0
        self._on_epoch_start()
        at_once = self._model.steps_per_execution
        for first, last in self._source.epoch(self.epoch, self.cursor, at_once):
            yield first, last, self
        self._strategy.consensus()  # before the epoch is evaluated

    def close(self) -> None:
        """After the last step: end what reads ahead. Local."""
        self._source.close()

    def run(self) -> dict[str, Any]:
        """The next ``steps_per_execution`` steps; collective. The last one's logs.

        Raises:
            StopIteration: the data came to their end before the first of them.
        """
        logs: dict[str, Any] | None = None
        for _ in range(self._model.steps_per_execution):
            if logs is not None and self.stop_agreed:
                break
            batch = self._source.next()
            if batch is None:
                break
            logs = self._run_step(batch)
        if logs is None:
            raise StopIteration
        return logs

    # One step.

    def _run_step(self, batch: GlobalBatch) -> dict[str, Any]:
        started = time.perf_counter()
        self._strategy.before_step(self._faults.step)
        self._faults.at("compute")
        logs = self._make_step(batch)
        self._strategy.after_step(self._faults.step)
        exchange = self._exchange
        assert exchange is not None
        header = exchange.header
        self.stop_agreed = header.stop > 0
        self.samples = round(header.samples)
        self.cursor = batch.span[1]
        self.step_s = time.perf_counter() - started
        self.exchange_s = exchange.seconds
        self.sent = self._traffic(exchange)
        if self.stop_agreed:
            self._strategy.consensus()
        self._after_step(self)
        return logs

    def _traffic(self, exchange: HostExchange) -> Traffic:
        if self._communicator.world.size == 1:
            return Traffic()
        messages, size = self._strategy.traffic
        return Traffic(messages + 1, size + exchange.bytes)

    def _make_step(self, batch: GlobalBatch) -> dict[str, Any]:
        self._share.batch = batch
        if (samples := self._source.samples) is not None:
            self._share.rate_factor = self._rate_factor(self.epoch + batch.span[0] / samples)
        if not self._ready:
            self._try_out(batch)  # members may be lost in it: before rows are assigned
        spans = self._share.assigned(batch.span)
        self._have = spans
        try:
            if self._ready and spans:
                exchange = self._begin(batch)
                inputs = self._share.inputs(spans)
                return exchange.run(lambda: self._step.fused(*inputs))
            # The first step goes by the parts that recovery needs: afterwards they are ready.
            local = self._share.contribution(spans)
            self._begin(batch)(*(local if self._sums else local[-1:]))
            self._ready = True
        except (tf.errors.OpError, ft.PeerFailure, TrainingError) as error:
            self._repair(error)
        assert self._exchange is not None
        # Own gradients, where they count, are computed again: the share may have grown.
        own = [] if self._sums else self._share.contribution(self._have)
        return self._step.commit([tf.constant(part) for part in (*own, *self._exchange.result)])

    def _try_out(self, batch: GlobalBatch) -> None:
        """Before the first step: may the batch be cut at all? Collective.

        Raises:
            NotShareable: on every rank; nothing was changed.
        """
        if self._communicator.initial_size == 1:
            return
        found = problem(self._step, batch)
        if not self._communicator.agree(not found):
            raise NotShareable(
                "the loss of a batch must be the mean over its rows, and metrics must count rows. "
                f"Received: {found or 'a train step'} of 8 rows, which is not the sum of those of "
                "3 and 5 of them; train with a loop of your own, which runs whole on every rank"
            )

    def _begin(self, batch: GlobalBatch) -> HostExchange:
        if self._exchange is None:
            check_finite = not keras_hooks.scales_loss(self._model.optimizer)
            self._exchange = self._make_exchange(self._share.exchanged, check_finite)
            self._step.connect(self._exchange)
        lo, hi = batch.span
        self._exchange.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        return self._exchange

    # When it fails.

    def _repair(self, error: BaseException) -> None:
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
                exchange.replay(self._completed())
                return
            except ft.PeerFailure as again:
                cause = again
            except TrainingError as wrong:
                cause = wrong
        if isinstance(cause, TrainingError):
            raise self._explained(cause) from None
        raise error if cause is None else cause

    def _completed(self) -> np.ndarray:
        """What this rank has for the step, and its piece of what the dead left undone."""
        exchange = self._exchange
        assert exchange is not None
        wanted = self._share.assigned(self._share.current.span)
        if not self._sums:  # its gradients are computed again for the update, too
            self._have = wanted
            return exchange.packed(self._share.contribution(wanted)[-1:])
        missing = difference(wanted, self._have)
        vector = exchange.local.copy()
        if missing is None:  # a second death moved the pieces: start over
            vector[:] = 0
            missing = wanted
        if missing:
            vector += exchange.packed(self._share.contribution(missing))
        self._have = wanted
        tail = exchange.layout.views(vector)[-1]
        self._share.put_header(tail, header_of(tail))
        return vector

    def _explained(self, error: TrainingError) -> TrainingError:
        """Say whose fault it is; collective, all ranks get here together."""
        exchange = self._exchange
        assert exchange is not None
        step = self._faults.step
        if exchange.header.nonfinite:
            layout, spoiled = exchange.layout, exchange.local if exchange.spoiled else None
            if spoiled is None and not self._sums:
                layout = self._share.layout
                spoiled = layout.packed(self._share.contribution(self._have))
            return blame(self._communicator, layout, spoiled, step=step)
        return self._misfit(error)

    def _misfit(self, error: TrainingError) -> TrainingError:
        """The sum is not of the step's samples; on every rank that had some alike."""
        reason = self._source.explanation
        if reason and not self._have:
            # The others may be of one mind, and go on: this rank has no part in their sum.
            ft.die(f"step {self._faults.step}: {reason}")
        return TrainingError(f"step {self._faults.step}: {reason}") if reason else error
