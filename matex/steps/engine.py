"""One fit: epochs of steps over the shared samples, and recovery inside a step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

import ft
from matex import keras_hooks
from matex.errors import NotShareable, TrainingError
from matex.exchange import Header, HostExchange, Layout
from matex.partition.spans import size
from matex.records.step_report import Replay, StepReport
from matex.sources.interface import GlobalBatch, Source
from matex.steps.bitflips import flip
from matex.steps.local_contribution import LocalContribution, StepRequests
from matex.steps.nonfinite import Nonfinite
from matex.steps.recovery import AllStop, StepRecovery
from matex.steps.separability import problem
from matex.steps.step import Control, Step
from matex.strategies import Strategy, Sync, Traffic

__all__ = ["Training"]

Traced = tuple[Step, HostExchange | None]


class Training:
    """What ``fit`` iterates over in place of Keras's own iterator, and makes its steps.

    Args:
        communicator, faults: ranks and fault injector of the run.
        make_exchange: called with the layout, and whether to look for what is not finite.
        model: built, with equal weights on all ranks.
        source: source of the global batches; every rank has the whole of it and takes its rows.
        first_epoch, cursor: where training starts, ``cursor`` in samples of that epoch.
        after_step: called with this object after each step, between steps; ``report`` is then
            that step's.
        wishes: what this rank asks for with the step that comes next.
        rate_factor: factor of the learning rate, after so many epochs.
        strategy: how ranks share the work; synchronous averaging without it.
        traced: :attr:`traced` of an earlier fit of the same compiled model, to use again.
        nonfinite: what becomes of a step with numbers that are not finite; stops by default.
        stepping: makes a context around every step, for a watchdog.
        on_epoch_start: called when the first epoch's metrics have just been reset.
        leaves_nonfinite: whether steps with numbers that are not finite are made like all others,
            because the script itself looks for them.
        on_whole: called before the first step with the reason why batches cannot be cut, where it
            is found then: from there on every rank computes them whole.
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
        wishes: Callable[[], StepRequests] = StepRequests,
        rate_factor: Callable[[float], float] = lambda epochs_done: 1.0,
        strategy: Strategy | None = None,
        traced: Traced | None = None,
        nonfinite: Nonfinite | None = None,
        stepping: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        leaves_nonfinite: bool = False,
        on_whole: Callable[[NotShareable], None] | None = None,
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._source = source
        self._faults = faults
        self._make_exchange = make_exchange
        self._on_epoch_start = on_epoch_start
        self._after_step = after_step
        self._stepping = stepping
        self._check_finite = not (leaves_nonfinite or keras_hooks.scales_loss(model.optimizer))
        self._on_whole = on_whole
        self.is_whole = False
        self._refill: Callable[[ft.Recovery | None], None] | None = None
        self._rate_factor = rate_factor
        self._strategy: Strategy = strategy or Sync()
        self._next_epoch = first_epoch
        self._step, self._exchange = traced or (self.new_step(model, source), None)
        self._wishes = wishes
        self._share = LocalContribution(communicator, model, self._step, wishes)
        self._nonfinite = nonfinite or Nonfinite("stop", communicator)
        self._mender = self._new_mender()
        self._ready = self._exchange is not None
        self._mark = 0
        self.epoch = first_epoch
        self.cursor = self._start = cursor
        self._resumed = False
        self._made: dict[str, Any] | None = None
        self.stop_agreed = False
        self.agreed = StepRequests()
        self.report = StepReport(samples=0, planned=0, step_s=0.0, exchange_s=0.0)

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

    def renew(self) -> None:
        """Between two steps: the model's shapes have changed, so trace its step anew. Local.

        The layout of what is exchanged changes with them.
        """
        stop_wanted, speeds = self.stop_wanted, self._share.speeds
        before = self._step
        self._step = self.new_step(
            self._model,
            self._source,
            sums_gradients=before.sums_gradients,
            scales_rate=before.scales_rate,
            most_rows=before.most_rows,
        )
        self._exchange = None
        self._share = LocalContribution(self._communicator, self._model, self._step, self._wishes)
        self._share.stop_wanted, self._share.speeds = stop_wanted, speeds
        self._mender = self._new_mender()
        self._ready = False
        self._step.tried = True

    def _new_mender(self) -> StepRecovery:
        return StepRecovery(
            self._communicator,
            self._share,
            self._source,
            faults=self._faults,
            nonfinite=self._nonfinite,
            refill=self._refill,
        )

    def admit(self, refill: Callable[[ft.Recovery | None], None]) -> None:
        """Spares may join from now on; before the first step, on all ranks alike.

        Args:
            refill: called where one can begin, with the recovery that it comes after, if any;
                collective where a place is vacant.
        """
        self._refill = refill
        self._mender = self._new_mender()

    def join(self, epoch: int, cursor: int, at_risk: Mapping[int, int]) -> None:
        """Before the first epoch: begin in the step at *cursor* of *epoch*, which others make.

        Args:
            at_risk: see :class:`matex.records.step_report.Replay`.
        """
        self._next_epoch, self._start = epoch, cursor
        self._mender.inherited = dict(at_risk)
        self.be_tried()

    def be_tried(self) -> None:
        """The other ranks have found that batches can be cut."""
        self._step.tried = True

    @property
    def at_risk(self) -> Mapping[int, int]:
        """What the dead left undone of the running step."""
        return self._mender.replay.at_risk

    @property
    def point(self) -> tuple[int, int, int]:
        """Epoch, cursor and mark of the running step: all before it is done, nothing of it."""
        return self.epoch, self._share.current.span[0], self._mark

    def begin_at(self, epoch: int) -> None:
        """Before the first epoch: let it be *epoch*."""
        self._next_epoch = epoch

    @property
    def source(self) -> Source:
        """The source of the global batches."""
        return self._source

    @property
    def samples_in_epoch(self) -> int | None:
        """The number of samples of an epoch, where it is known beforehand."""
        return self._source.samples

    @property
    def epoch_is_whole(self) -> bool:
        """Whether nothing of the running epoch was left out by a stop."""
        samples = self._source.samples
        return self.cursor == samples or (samples is None and not self.stop_agreed)

    @property
    def samples_taken(self) -> int:
        """The number of samples that the running step should be made of."""
        lo, hi = self._share.current.span
        return hi - lo

    @property
    def own_samples(self) -> int:
        """The number of samples of the running step that this rank computed."""
        return size(self._mender.have)

    def share_by(self, speeds: Mapping[int, float]) -> None:
        """Between two steps, alike on all ranks: share batches out by *speeds* of ranks. Local."""
        self._share.speeds = speeds

    @property
    def mark(self) -> int:
        """A number that stands for all rows trained on: see `matex.sources.interface.Source`."""
        return self._source.mark

    # The face that Keras's fit sees.

    @property
    def num_batches(self) -> int | None:
        """Steps of an epoch, where known."""
        return self._source.num_batches

    def reset(self) -> None:
        """Keras calls it before the first epoch."""
        self._source.reset()

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        """Around an epoch, after which all replicas are the one model; collective."""
        with self._source.catch_stop_iteration():
            yield
        self.consensus()

    def consensus(self) -> None:
        """Make every replica the model that is evaluated and saved; collective."""
        if self.is_whole:
            return
        self._faults.during("in-consensus")
        self._strategy.consensus()

    def __iter__(self) -> Iterator[tuple[int, int, Training]]:
        self.epoch, self.cursor = self._next_epoch, self._start
        self._next_epoch += 1
        self._start = 0
        self._resumed = self.cursor > 0
        self._on_epoch_start()
        self._strategy.epoch_begins(self.epoch)
        at_once = self._model.steps_per_execution
        if self.cursor and self.cursor == self._source.samples:
            last = (self.num_batches or 1) - 1  # only the epoch's end is still to come
            yield last, last, self
            return
        for first, last in self._source.epoch(self.epoch, self.cursor, at_once):
            if self.stop_wanted and self._all_stop():
                return
            yield first, last, self

    def _all_stop(self) -> bool:
        """Whether every rank wants to stop before the next step, as Keras would; collective.

        It is asked in the exchange of that step, where the others are. If they do not, the step
        is made, and :meth:`run` finds it done.
        """
        if not self._strategy.sums_gradients:  # its messages for the step may be under way
            return False
        self._mark = self._source.mark
        batch = self._source.next()
        if batch is None:
            return False
        try:
            self._made = self._run_step(batch, decline=True)
        except AllStop:
            self.stop_agreed = self._model.stop_training = True
            return True
        return False

    def close(self) -> None:
        """After the last step: end what reads ahead. Local."""
        self._source.close()

    def run(self, whole: Callable[[Any, int], dict[str, Any]] | None = None) -> dict[str, Any]:
        """The next ``steps_per_execution`` steps; collective. The last one's logs.

        Where a checkpoint was made after the last step of an epoch, that step's.

        Args:
            whole: makes a step from a batch that cannot be cut, as ``train_step`` gets it, of so
                many rows; returns its logs.

        Raises:
            StopIteration: the data came to their end before the first of them.
            NotShareable: batches cannot be cut, and nobody said what to do then.
        """
        logs, self._made = self._made, None
        for _ in range(self._model.steps_per_execution - (logs is not None)):
            if logs is not None and self.stop_agreed:
                break
            self._mark = self._source.mark
            batch = self._source.next()
            if batch is None:
                break
            try:
                logs = self._run_whole(batch, whole) if self.is_whole else self._run_step(batch)
            except NotShareable as reason:
                if whole is None or self._on_whole is None:
                    raise
                self.is_whole = True
                self._on_whole(reason)
                logs = self._run_whole(batch, whole)
        resumed, self._resumed = self._resumed, False
        if logs is None and resumed:
            return dict(self._model.get_metrics_result())
        if logs is None:
            raise StopIteration
        return logs

    # One step.

    def _run_step(self, batch: GlobalBatch, *, decline: bool = False) -> dict[str, Any]:
        started = time.perf_counter()
        with self._stepping():
            self._faults.at("compute")
            for fault in self._faults.take("bitflip"):
                flip(self._model, fault, step=self._faults.step)
            logs = self._make_step(batch, decline=decline)
        self._faults.during("in-strategy")
        self._strategy.after_step(self._faults.step)
        passed = Traffic(*self._source.after_step(self._faults.step))
        exchange = self._exchange
        assert exchange is not None
        header = exchange.header
        self.stop_agreed = header.stop > 0
        self.agreed = StepRequests(leave=header.leave > 0, save=int(header.save))
        self.cursor = batch.span[1]
        self.report = StepReport(
            samples=round(header.samples),
            planned=self.samples_taken,
            step_s=time.perf_counter() - started,
            exchange_s=exchange.seconds,
            logs=logs,
            replay=self._replay(round(header.samples)),
            sent=self._traffic(exchange, passed),
        )
        self._after_step(self)
        return logs

    def _run_whole(
        self, batch: GlobalBatch, whole: Callable[[Any, int], dict[str, Any]] | None
    ) -> dict[str, Any]:
        assert whole is not None
        lo, hi = batch.span
        logs = whole(self._source.as_data(batch.rows([batch.span])), hi - lo)
        self._source.after_step(self._faults.step)
        self.cursor = hi
        return logs

    def _replay(self, samples: int) -> Replay | None:
        """What deaths cost the step that came to *samples*, if there were any."""
        replay = self._mender.replay
        replay.samples_lost = max(0, self.samples_taken - samples)
        replay.samples_repeated = max(0, samples - self.samples_taken)
        return replay if replay else None

    def _traffic(self, exchange: HostExchange, passed: Traffic) -> Traffic:
        if self._communicator.world.size == 1:
            return Traffic()
        own = self._strategy.traffic
        return Traffic(
            own.messages + passed.messages + 1, own.bytes + passed.bytes + exchange.bytes
        )

    def _make_step(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        self._share.batch = batch
        if not self._step.tried and self.samples_taken:
            self._try_out(batch)  # members may be lost in it: before rows are assigned
            self._step.tried = True
        if self._refill is not None:
            self._refill(None)
        if (samples := self._source.samples) is not None:
            self._share.rate_factor = self._rate_factor(self.epoch + batch.span[0] / samples)
        self._strategy.before_step(self._faults.step)
        spans = self._mender.begin()
        if decline:
            self._mender.decline()
            spans = []
        try:
            # Slots follow from the first row of a stretch, so each stretch is computed by itself.
            if self._ready and spans and not (len(spans) > 1 and self._step.slots.used):
                exchange = self._begin(batch)
                inputs = self._share.inputs(spans)
                if self._step.runs_eagerly:  # calls the exchange itself, which is the operation
                    return self._step.fused(*inputs)
                return exchange.run(lambda: self._step.fused(*inputs))
            # The first step goes by the parts that recovery needs: afterwards they are ready.
            if self._step.layout is not None and not decline:  # else sent() sees to it
                self._share.idle(spans)
            local = self._share.sent(spans)
            self._begin(batch)(*local)
            self._ready = True
        except (tf.errors.OpError, ft.PeerFailure, TrainingError) as error:
            self._mender.mend(self._exchange, error)
        assert self._exchange is not None
        # Own gradients, where they count, are computed again: the share may have grown.
        own = [] if self._share.sums_gradients else self._share.contribution(self._mender.have)
        return self._step.commit([tf.constant(part) for part in (*own, *self._exchange.result)])

    def _try_out(self, batch: GlobalBatch) -> None:
        """Before the first step: may the batch be cut at all? Collective.

        Raises:
            NotShareable: on every rank; nothing was changed, nor is it made.
        """
        found = problem(self._step, batch, alone=self._communicator.initial_size == 1)
        if not self._communicator.agree(not found):
            raise NotShareable(found or "another rank found that its train_step does not add up")

    def prepare(self) -> None:
        """Trace now what the first steps would have others wait for. Local; changes nothing."""
        if self._step.layout is None:
            return
        self._connected()
        self._step.trace()
        sample = self._source.sample()
        if sample is not None:
            self._step.contribution(sample, Control(1.0, 0.0, Header()).array())

    def _connected(self) -> HostExchange:
        if self._exchange is None:
            self._exchange = self._make_exchange(self._share.exchanged, self._check_finite)
            self._step.connect(self._exchange)
        self._exchange.check_finite = self._check_finite
        return self._exchange

    def _begin(self, batch: GlobalBatch) -> HostExchange:
        exchange = self._connected()
        lo, hi = batch.span
        exchange.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        return exchange
