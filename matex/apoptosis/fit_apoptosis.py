"""Apoptosis of one fit: events that are due are held, noted with the model, and told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from matex import keras_hooks
from matex.apoptosis import event_text
from matex.apoptosis.budget import Budget
from matex.apoptosis.cut import rebuild
from matex.apoptosis.event import hold_event
from matex.apoptosis.event_plan import EventPlan
from matex.apoptosis.event_printer import EventPrinter
from matex.apoptosis.event_samples import EventSamples
from matex.apoptosis.graph.forward import Traced
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import trace
from matex.apoptosis.outcome import Outcome
from matex.apoptosis.peers import peers_of_process
from matex.apoptosis.schedule import EventSchedule, Mode, Thresholds
from matex.apoptosis.targets import size_of
from matex.apoptosis.trial import Options
from matex.keras_hooks.fit_data import build_for_fit

__all__ = ["ApoptosisSettings", "FitApoptosis"]

Arrays = dict[str, Any]


@dataclass(frozen=True)
class ApoptosisSettings:
    """Arguments of :class:`matex.Apoptosis`, the same for each fit."""

    mode: Mode
    options: Options
    first_epoch: int
    last_epoch: int | None
    every: int
    pruning_ratio: float | None
    target: str
    delta: float | None
    data: Arrays | None
    validation_data: Arrays | None
    samples: int
    verbose: int


class FitApoptosis:
    """Events of one fit; collective to construct.

    Args:
        model: model of the fit.
        settings: arguments of the callback.
        epochs: number of the fit's epochs.
        record: function that is given the record of each event.

    Attributes:
        plan: plan of the events to come.
        samples: rows on which they are decided.

    Raises:
        Unsupported: on every rank, where the model cannot be followed or called with the data.
    """

    def __init__(
        self,
        model: Any,
        settings: ApoptosisSettings,
        epochs: int,
        record: Callable[[dict[str, Any]], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._number_of_epochs = epochs
        self._record_event = record
        self._is_fresh, self._continues, self._cut_after = True, False, -1
        self._began = self._epoch_s = 0.0
        self._peers = peers_of_process()
        build_for_fit(model)
        last = epochs - 2 if settings.last_epoch is None else settings.last_epoch
        given = settings.data, settings.validation_data
        self.samples = EventSamples(Traced(model), *given, limit=settings.samples)
        net = trace(model, exclude=settings.options.exclude)
        self.samples.must_serve(settings.options.criterion, net)
        self.plan = EventPlan(
            schedule=EventSchedule(settings.first_epoch, last, settings.every),
            thresholds=Thresholds(settings.mode),
            measure=settings.target,
            pruning_ratio=settings.pruning_ratio,
            size_at_start=size_of(net, settings.target),
        )
        self._tell = EventPrinter(model, self._peers.say, settings.verbose)
        self._budget = Budget(self.samples, self._peers, settings.delta)
        if rebuild.continues(model):
            self.read_notes()
        self._budget.open(model)
        self._note()

    def read_notes(self) -> None:
        """Continue from the notes that were saved with the model during this fit. Local.

        The run before this one made them, or the ranks that this one joins.
        """
        notes = rebuild.notes_of(self._model)
        self._continues = bool(notes)
        if notes:
            layers = {layer.name for layer in keras_hooks.flat_layers(self._model)}
            self.plan = self.plan.continued(notes, layers)
            self._budget.take_over(notes.get("progress", {}))

    def _note(self) -> None:
        """Note the plan and the losses with the model, for checkpoints."""
        rebuild.note(self._model, self.plan.notes() | {"progress": self._budget.notes()})

    @property
    def _options(self) -> Options:
        given = self._settings.options
        return replace(given, exclude=(*given.exclude, *self.plan.refused))

    def _net(self) -> Network:
        """Network of the current model."""
        return trace(self._model, exclude=self._options.exclude)

    def epoch_begins(self, epoch: int) -> None:
        """Note that *epoch*, counted from 0, begins; local."""
        self._began = time.perf_counter()
        if self._is_fresh:
            self._is_fresh = False
            schedule = self.plan.schedule
            # Of a fit that continues another one, events may have been before.
            begun = 0 if self._continues else epoch
            epochs = self._number_of_epochs
            self._tell(
                event_text.no_event(schedule.first, schedule.last, begun=begun, epochs=epochs)
            )
            self.plan = self.plan.from_epoch(epoch)
            self._budget.from_epoch(epoch)
        if self._cut_after == epoch:  # by now all callbacks have seen the larger model's value
            keras_hooks.forget_best_weights()

    def training_ends(self) -> None:
        """Note that the steps of an epoch have been made; local."""
        if self._began:
            self._epoch_s = time.perf_counter() - self._began
            self._began = 0.0

    def epoch_ends(self, epoch: int, loss: float) -> None:
        """Hold an event if one is due; collective.

        Args:
            epoch: number of the epoch, counted from 0.
            loss: mean loss of its training, NaN if unknown.
        """
        self.training_ends()
        schedule = self.plan.schedule
        if schedule.is_due(epoch + 1):
            self._come_to(epoch + 1, self._leaders(loss))
        elif schedule.is_due(epoch + 2) and self._settings.delta is not None:
            held_out = self.samples.of_network(self._net())
            measured = held_out.loss(self._peers)
            self._look(epoch + 1, measured, self._leaders(loss), held_out.rows)

    def _leaders(self, loss: float) -> float | None:
        """Training loss of the leader; None if there is none, or it is not finite."""
        found = self._peers.leaders_value(loss)
        return None if math.isnan(found) else found

    def _come_to(self, epoch: int, training: float | None) -> None:
        """An event is due; *training* is the mean loss of the epoch."""
        started = time.perf_counter()
        goal = self.plan.goal
        if goal is not None and goal.is_met(self._net()):
            left = size_of(self._net(), goal.measure) / self.plan.size_at_start
            self._tell.once(event_text.goal_is_met(goal.measure, 1 - left))
            return
        # A callback may have asked the leader alone to stop: the leader's value counts for all.
        if self._peers.leaders_value(float(self._model.stop_training)):
            return
        held_out = self.samples.of_network(self._net())
        before = held_out.loss(self._peers)
        allowed = self._budget.allowed(epoch, before, training, held_out.rows)
        if allowed is None:
            self._look(epoch, before, training, held_out.rows)
            self._tell(
                f"apoptosis waits after epoch {epoch}: the loss is not yet back "
                "where it was before the last event"
            )
            return
        outcome = hold_event(
            self._model,
            self._options,
            self.plan.thresholds,
            scoring=self.samples.scoring,
            held_out=held_out,
            peers=self._peers,
            goal=goal,
            before=before,
            allowed=allowed,
        )
        self.plan = self.plan.after(epoch, outcome)
        if outcome.changed:
            self._budget.spend(before, training)
            self.samples.choose_anew()  # a smaller network is judged by more rows
        self._look(epoch, outcome.loss_after, training, held_out.rows)
        self._record(epoch, outcome, time.perf_counter() - started)
        if self.plan.schedule.is_over:
            self._tell(event_text.is_over(epoch, outcome.flops[1]))
        if outcome.changed:
            self._cut_after = epoch
            keras_hooks.forget_best_weights()
            self._peers.renew(self._model)

    def _look(self, epoch: int, held_out: float, training: float | None, rows: int) -> None:
        self._budget.look(epoch, held_out, training, rows)
        self._note()

    def _record(self, epoch: int, outcome: Outcome, seconds: float) -> None:
        times = {"epoch": epoch, "epoch_s": self._epoch_s, "seconds": seconds}
        fields = event_text.record_of(outcome) | times
        self._record_event(fields)
        self._peers.record(**fields)
        self._tell.event(epoch, outcome, seconds)
