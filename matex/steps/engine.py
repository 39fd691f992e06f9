"""One step at a time: rows, contribution, exchange, update, and recovery if a rank dies in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

import ft
from matex import keras_hooks
from matex.errors import NotShareable, TrainingError
from matex.exchange import Header, HostExchange
from matex.partition.spans import Span, size
from matex.records.step_report import Replay, StepReport, StepRequests
from matex.sources.interface import GlobalBatch
from matex.steps.bitflips import flip
from matex.steps.local_contribution import LocalContribution
from matex.steps.recovery import StepRecovery
from matex.steps.separability import find_inseparable
from matex.steps.services import OpenSlots, StepServices, StepSource
from matex.steps.step import Control, Step
from matex.strategies import Strategy, Sync, Traffic

__all__ = ["CompiledStep", "StepEngine", "trace_step"]


class CompiledStep(NamedTuple):
    """A step's functions and buffers, which outlive a fit."""

    step: Step
    exchange: HostExchange | None = None


def trace_step(model: Any, source: StepSource, **options: Any) -> Step:
    """Trace the step of *model* on batches of *source*; local.

    Args:
        model: built.
        source: source of the batches.
        options: keyword arguments of :class:`Step`.

    Raises:
        NotShareable: it cannot be cut at its optimizer.
    """
    return Step(model, source.signature, as_data=source.as_data, **options)


class StepEngine:
    """Makes the steps of one model; it knows no epochs.

    Args:
        services: ranks, faults and watch of the run.
        model: built, with equal weights on all ranks.
        source: source of the batches; every rank has the whole of it and takes its rows.
        compiled: step of the model, perhaps with the buffers of an earlier fit.
        strategy: manner in which ranks share the work; synchronous averaging by default.
        finds_nonfinite: whether to look for numbers that are not finite, on by default; off where
            the script itself does.
    """

    def __init__(
        self,
        services: StepServices,
        model: Any,
        source: StepSource,
        compiled: CompiledStep,
        *,
        strategy: Strategy | None = None,
        finds_nonfinite: bool = True,
    ) -> None:
        self._services = services
        self._communicator = services.communicator
        self._model = model
        self._source = source
        self._strategy: Strategy = strategy or Sync()
        self._step, self._exchange = compiled
        self._check_finite = finds_nonfinite and not keras_hooks.scales_loss(model.optimizer)
        self._local = LocalContribution(services, model, self._step)
        self._recovery = StepRecovery(services, self._local, source)
        self._is_ready = self._exchange is not None

    # Between two steps.

    @property
    def stop_wanted(self) -> bool:
        """Whether this rank wants training to stop; the others learn of it in the next step."""
        return self._local.stop_wanted

    @stop_wanted.setter
    def stop_wanted(self, wanted: bool) -> None:
        self._local.stop_wanted = wanted

    @property
    def compiled(self) -> CompiledStep:
        """The step's functions and buffers, to be used again by the next fit."""
        return CompiledStep(self._step, self._exchange)

    @property
    def may_decline(self) -> bool:
        """Whether a step can be declined; not where its messages may be under way before it."""
        return self._strategy.sums_gradients

    def share_by(self, speeds: Mapping[int, float]) -> None:
        """Share batches out by *speeds* of ranks, alike on all of them. Local."""
        self._local.speeds = speeds

    def begin_epoch(self, epoch: int) -> None:
        """Let the strategy know that *epoch* begins. Local."""
        self._strategy.epoch_begins(epoch)

    def consensus(self) -> None:
        """Make every replica the model that is evaluated and saved; collective."""
        self._services.faults.during("in-consensus")
        self._strategy.consensus()

    def retrace(self) -> None:
        """Trace the step anew, because the model's shapes have changed. Local.

        The layout of what is exchanged changes with them.
        """
        before = self._step
        self._step = trace_step(
            self._model,
            self._source,
            sums_gradients=before.sums_gradients,
            scales_rate=before.scales_rate,
            most_rows=before.most_rows,
        )
        self._exchange = None
        self._local.use(self._step)
        self._is_ready = False
        self.skip_separability_check()

    # Spares.

    def admit(self, slots: OpenSlots) -> None:
        """Let spares take *slots* from now on; before the first step, on all ranks alike."""
        self._recovery.slots = slots

    def inherit(self, at_risk: Mapping[int, int]) -> None:
        """Begin in the place of another rank, in the running step.

        Args:
            at_risk: see :class:`matex.records.step_report.Replay`.
        """
        self._recovery.inherited = dict(at_risk)

    def skip_separability_check(self) -> None:
        """Take for known that batches can be cut, which the other ranks have found."""
        self._step.separability_checked = True

    @property
    def at_risk(self) -> Mapping[int, int]:
        """The samples of the running step that the dead left undone, by original rank."""
        return self._recovery.replay.at_risk

    @property
    def running_span(self) -> Span:
        """The samples of the running step, as an interval of the epoch."""
        return self._local.running.span

    @property
    def step_number(self) -> int:
        """The number of the next step of the run."""
        return self._services.faults.step

    def prepare(self) -> None:
        """Trace now what the first steps would have others wait for. Local; changes nothing."""
        if self._step.layout is None:
            return
        self._connected()
        self._step.trace()
        sample = self._source.sample()
        if sample is not None:
            denominators = self._step.denominators(sample)
            control = Control(1.0, 0.0, Header(), denominators)
            self._step.contribution(sample, control.array())

    # One step.

    def run(
        self, batch: GlobalBatch, *, rate_factor: float = 1.0, decline: bool = False
    ) -> StepReport:
        """Make the step of *batch*; collective.

        Args:
            rate_factor: factor of the learning rate; the leader's counts, 1 by default.
            decline: contribute nothing, because training should stop before this step. Where some
                rank does not decline, the step is made, and training stops after it.

        Raises:
            AllStop: every rank declined; no update was made.
            NotShareable: batches cannot be cut; before the first step, on every rank, and no
                update was made.
            TrainingError: on every rank; no update was made.
        """
        faults = self._services.faults
        started = time.perf_counter()
        with self._services.around_step():
            faults.at("compute")
            for fault in faults.take("bitflip"):
                flip(self._model, fault, step=faults.step)
            logs = self._make_step(batch, rate_factor, decline=decline)
        faults.during("in-strategy")
        self._strategy.after_step(faults.step)
        for_rows = Traffic(*self._source.after_step(faults.step))
        exchange = self._exchange
        assert exchange is not None
        header = exchange.header
        samples = round(header.samples)
        lo, hi = batch.span
        return StepReport(
            samples=samples,
            planned=hi - lo,
            step_s=time.perf_counter() - started,
            exchange_s=exchange.seconds,
            logs=logs,
            replay=self._replay(samples, planned=hi - lo),
            sent=self._traffic(exchange, for_rows),
            agreed=StepRequests(header.stop > 0, header.leave > 0, int(header.save)),
            own_samples=size(self._recovery.have),
        )

    def _replay(self, samples: int, *, planned: int) -> Replay | None:
        """The cost of deaths for a step that came to *samples* of *planned*, if there were any."""
        replay = self._recovery.replay
        replay.samples_lost = max(0, planned - samples)
        replay.samples_repeated = max(0, samples - planned)
        return replay if replay else None

    def _traffic(self, exchange: HostExchange, for_rows: Traffic) -> Traffic:
        if self._communicator.world.size == 1:
            return Traffic()
        own = self._strategy.traffic
        return Traffic(
            own.messages + for_rows.messages + 1, own.bytes + for_rows.bytes + exchange.bytes
        )

    def _make_step(
        self, batch: GlobalBatch, rate_factor: float, *, decline: bool
    ) -> dict[str, Any]:
        self._local.running = batch
        step, slots = self._step, self._recovery.slots
        if not step.separability_checked and batch.span[0] != batch.span[1]:
            self._check_separable(batch)  # members may be lost in it: before rows are assigned
            step.separability_checked = True
        if slots is not None:
            slots.fill(None)
        self._local.rate_factor = rate_factor
        self._strategy.before_step(self._services.faults.step)
        spans = self._recovery.begin()
        if decline:
            self._recovery.decline()
            spans = []
        try:
            # Slots follow from the first row of a stretch, so each stretch is computed by itself.
            if self._is_ready and spans and not (len(spans) > 1 and step.embedding_rows.used):
                exchange = self._begin(batch)
                inputs = self._local.inputs(spans)
                if step.runs_eagerly:  # calls the exchange itself, which is the operation
                    return step.fused(*inputs)
                return exchange.run(lambda: step.fused(*inputs))
            # The first step goes by the parts that recovery needs: afterwards they are ready.
            if step.layout is not None and not decline:  # else sent() sees to it
                self._local.idle(spans)
            sent = self._local.sent(spans)
            self._begin(batch)(*sent)
            self._is_ready = True
        except (tf.errors.OpError, ft.PeerFailure, TrainingError) as error:
            self._recovery.complete(self._exchange, error)
        assert self._exchange is not None
        # Own gradients, where they count, are computed again: this rank may have got more rows.
        own = [] if step.sums_gradients else self._local.contribution(self._recovery.have)
        return step.commit([tf.constant(part) for part in (*own, *self._exchange.result)])

    def _check_separable(self, batch: GlobalBatch) -> None:
        """Try, before the first step, whether the batch can be cut at all; collective.

        Raises:
            NotShareable: on every rank; nothing was changed, nor is it made.
        """
        found = find_inseparable(self._step, batch, alone=self._communicator.initial_size == 1)
        if not self._communicator.agree(not found):
            raise NotShareable(found or "another rank found that its train_step does not add up")

    def _connected(self) -> HostExchange:
        if self._exchange is None:
            self._exchange = self._services.make_exchange(self._local.exchanged, self._check_finite)
            self._step.connect(self._exchange)
        self._exchange.check_finite = self._check_finite
        return self._exchange

    def _begin(self, batch: GlobalBatch) -> HostExchange:
        exchange = self._connected()
        lo, hi = batch.span
        exchange.begin(samples=hi - lo, fingerprint=batch.fingerprint([batch.span]))
        return exchange
