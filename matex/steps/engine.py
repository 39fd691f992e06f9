"""The engine that makes one step at a time: rows, contribution, exchange, update, recovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.traffic import Traffic
from matex.partition.slot_capacity import SlotCapacity
from matex.partition.spans import Span, size
from matex.records.step_report import DeathCost, Interval, StepReport, StepRequests, StepTimes
from matex.sources.interface import GlobalBatch
from matex.steps.bitflips import flip_injected
from matex.steps.declined import StepDeclined
from matex.steps.executors.executor import StepExecutor
from matex.steps.executors.step_context import StepContext
from matex.steps.separability_gate import SeparabilityGate
from matex.steps.services import StepServices, StepSource, VacantPlaces
from matex.steps.step import Step
from matex.steps.step_compiler import StepCompiler
from matex.steps.traced_step import AnyStep, CompiledStep
from matex.strategies import Strategy, Sync

__all__ = ["StepEngine"]


class StepEngine:
    """Makes the steps of one model; it does not know about epochs.

    Args:
        services: ranks, faults and watchdog of the run.
        model: built model, with equal weights on all ranks.
        source: source of the batches; every rank has all of it and takes its rows.
        compiled: step of the model, possibly with the buffers of an earlier fit.
        strategy: strategy with which ranks share the work; synchronous averaging by default.
        finds_nonfinite: whether to check for NaN and infinity, True by default; False if the script
            does so itself.
        made_anew: function called with a step built anew, with more slots; none by default.

    Raises:
        NotShareable: virtual workers cannot share the step.
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
        made_anew: Callable[[AnyStep], None] = lambda step: None,
    ) -> None:
        self._services = services
        self._communicator = services.communicator
        self._model, self._source = model, source
        self._strategy: Strategy = strategy or Sync()
        scales = keras_hooks.traits_of(model.optimizer).scales_loss
        self._context = StepContext.of(services, source, model)
        self._rows, self._account = self._context.rows, self._context.account
        self._header, self._repair = self._context.header, self._context.repair
        self._gate = SeparabilityGate(
            services.communicator,
            self._context,
            # Replicas that differ could not go on with whole batches.
            may_check_again=(
                services.communicator.initial_size > 1 and self._strategy.sums_gradients
            ),
        )
        self._compiler = StepCompiler(
            model,
            self._context,
            self._strategy,
            check_finite=finds_nonfinite and not scales,
            made_anew=made_anew,
        )
        self._compiler.use(compiled)

    @property
    def _step(self) -> AnyStep:
        return self._compiler.step

    @property
    def _executor(self) -> StepExecutor:
        return self._compiler.executor

    # Between two steps.

    @property
    def stop_wanted(self) -> bool:
        """Whether this rank wants training to stop; other ranks learn of it in the next step."""
        return self._header.stop_wanted

    @stop_wanted.setter
    def stop_wanted(self, wanted: bool) -> None:
        self._header.stop_wanted = wanted

    @property
    def compiled(self) -> CompiledStep:
        """Functions and buffers of the step, for use by the next fit."""
        return self._compiler.compiled

    @property
    def makes_one_update(self) -> bool:
        """Whether each step is a single update by the model's own optimizer."""
        return isinstance(self._step, Step)

    def set_speeds(self, speeds: Mapping[int, float]) -> None:
        """Divide batches by *speeds* of ranks, equal on all ranks. Local."""
        self._context.division.speeds = speeds

    def begin_epoch(self, epoch: int) -> None:
        """Tell the strategy that *epoch* begins. Local."""
        self._strategy.epoch_begins(epoch)

    def consensus(self) -> None:
        """Set every replica to the model that is evaluated and saved; collective."""
        self._services.faults.during("in-consensus")
        self._strategy.consensus()

    def retrace(self, *, checked: bool = True) -> None:
        """Trace the step again; see :func:`matex.steps.traced_step.trace_anew`. Local."""
        self._compiler.retrace(checked=checked)

    @property
    def capacity(self) -> SlotCapacity | None:
        """Capacity for batches in the step's slots, if it may have any."""
        return self._step.capacity

    def set_capacity(self, capacity: SlotCapacity) -> None:
        """Trace the step again with *capacity*, equal on all ranks, unless it has that. Local."""
        self._compiler.set_capacity(capacity)

    def use_vacant_places(self, places: VacantPlaces) -> None:
        """Let spares take *places* from now on; before the first step, equally on all ranks."""
        self._repair.places = places

    def join_running_step(self, at_risk: Mapping[int, int]) -> None:
        """Start in the place of another rank, in the running step.

        Args:
            at_risk: see :class:`matex.records.step_report.DeathCost`.
        """
        self._account.inherited = dict(at_risk)

    def skip_separability_check(self, checked: Iterable[int] = ()) -> None:
        """Skip the check that batches can be divided, which the other ranks have made.

        Args:
            checked: numbers of the updates that they have checked. None by default.
        """
        self._step.checks.is_made = True
        self._step.checked.update(checked)

    @property
    def checked(self) -> list[int]:
        """Numbers of the updates that were checked, for a step that makes several."""
        return sorted(self._step.checked)

    @property
    def at_risk(self) -> Mapping[int, int]:
        """Number of samples of the running step that dead ranks left undone, by rank."""
        return self._account.death_cost.at_risk

    @property
    def running_span(self) -> Span:
        """Samples of the running step, as an interval of the epoch."""
        return self._rows.running.span

    @property
    def step_number(self) -> int:
        """Number of the next step of the run."""
        return self._services.step

    def prepare(self) -> None:
        """Trace now the graphs for which other ranks would wait later. Local; changes nothing."""
        self._executor.prepare(self._source.sample)

    # One step.

    def run(
        self,
        batch: GlobalBatch,
        *,
        rate_factor: float = 1.0,
        decline: bool = False,
        fetched: Interval | None = None,
    ) -> StepReport:
        """Make the step of *batch*; collective.

        Args:
            rate_factor: factor of the learning rate; the leader's value is used, 1 by default.
            decline: whether to contribute nothing, because training should stop before this step.
                If another rank does not decline, the step is made, and training stops after it.
            fetched: time interval in which the source produced *batch*; None by default.

        Raises:
            StepDeclined: every rank declined; no update was made.
            NotShareable: batches, or this batch, cannot be divided; raised on every rank before the
                step, and no update was made.
            TrainingError: on every rank; no update was made.
        """
        faults, step = self._services.faults, self._services.step
        # Not in the step, whose time is limited: this takes as long as the first trace.
        self._compiler.make_slots_for(self._communicator, batch.capacity)
        started = time.perf_counter()
        with self._services.around_step():
            faults.at("compute")
            flip_injected(self._model, faults, step=step)
            logs = self._make(batch, rate_factor, decline=decline)
        faults.during("in-strategy")
        self._strategy.after_step(step)
        for_rows = Traffic(*self._source.after_step(step))
        exchanges = self._executor.finished
        header, samples = exchanges.header, round(exchanges.header.samples)
        planned = size([batch.span])
        read = (*filter(None, [fetched]), *self._rows.read)
        return StepReport(
            samples=samples,
            planned=planned,
            step_s=time.perf_counter() - started,
            exchange_s=exchanges.seconds,
            logs=logs,
            death_cost=self._death_cost(samples, planned=planned),
            sent=self._traffic(exchanges.traffic, for_rows),
            agreed=StepRequests.agreed(stop=header.stop, leave=header.leave, word=header.save),
            own_samples=size(self._account.have),
            times=StepTimes(started, read, exchanges.intervals),
        )

    def _death_cost(self, samples: int, *, planned: int) -> DeathCost | None:
        """Cost of deaths in a step that summed *samples* of *planned*; None without deaths."""
        cost = self._account.death_cost
        cost.samples_lost = max(0, planned - samples)
        cost.samples_repeated = max(0, samples - planned)
        return cost if cost else None

    def _traffic(self, *further: Traffic) -> Traffic:
        if self._communicator.world.size == 1:
            return Traffic()
        messages, sent = zip(self._strategy.traffic, *further, strict=True)
        return Traffic(sum(messages), sum(sent))

    def _make(self, batch: GlobalBatch, rate_factor: float, *, decline: bool) -> dict[str, Any]:
        if batch.uneven:
            raise NotShareable(batch.uneven)
        self._rows.running = batch
        if batch.span[0] != batch.span[1]:
            # It may lose members: before rows are assigned.
            self._gate.check(self._step, self._executor, batch)
        if (places := self._repair.places) is not None:
            places.fill(None)
        self._header.rate_factor = rate_factor
        step = self._services.step
        self._strategy.before_step(step)
        try:
            logs = self._executor.execute(batch, decline=decline)
        except StepDeclined:
            self._strategy.step_declined(step)
            raise
        self._step.checks.is_refuted = self._executor.finished.header.inseparable > 0
        return logs
