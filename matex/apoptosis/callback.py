"""The callback: it holds, reports and records events that are due."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import keras

from matex import keras_hooks
from matex.apoptosis import telling
from matex.apoptosis.arguments import check_arguments, named
from matex.apoptosis.budget import Budget
from matex.apoptosis.cut import rebuild
from matex.apoptosis.event import hold_event
from matex.apoptosis.event_samples import EventSamples
from matex.apoptosis.graph.forward import Traced
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import trace
from matex.apoptosis.outcome import Outcome
from matex.apoptosis.peers import peers_of_process
from matex.apoptosis.schedule import MODES, EventSchedule, Thresholds
from matex.apoptosis.targets import Goal, size_of
from matex.apoptosis.teller import Teller
from matex.apoptosis.trial import Options
from matex.keras_hooks.fit_data import build_for_fit

__all__ = ["Apoptosis"]


class Apoptosis(keras.callbacks.Callback):
    """Removes redundant units of a model while it trains (arXiv:1610.00790).

    ``model.fit(..., callbacks=[matex.Apoptosis()])``: at ends of epochs units whose work
    the others can take over are removed; layers, weights, optimizer slots and steps really
    become smaller, the same ``fit`` goes on, and ``model`` is the smaller model afterwards.
    Works in one process and under ``matex run`` on any number of ranks. Every fit begins anew:
    its thresholds, its schedule and the size that shares count from are its own.

    Args:
        mode: ``conservative``, ``natural``, ``aggressive``, or ``adaptive``, the default, which
            raises and lowers its threshold by the held-out loss.
        criterion: ``gram``, the default, ``projection``, ``similarity``, ``angle``; ``taylor`` and
            ``oba``, which ask the loss; ``magnitude`` and ``random`` are baselines.
        first_epoch, last_epoch: epochs, counted from 1, at whose ends events may happen;
            by default the second, and two before the last.
        every: epochs from one event to the next. 0, the default, for one while events take 30 %
            or more of the parameters, and then two; of a model so small that its steps would be
            no faster no event follows the first that takes less, unless there is a
            *pruning_ratio*.
        pruning_ratio: fraction of *target* after whose removal events end, between 0 and 1; no
            limit by default.
        target: ``parameters``, the default, or ``flops``.
        exclude: names of layers whose units are kept; none by default.
        delta: rise of the held-out loss, as a fraction of a scale between it and the untrained
            network's, that an event may cost, 0.005 by default. An event that costs more, and
            more than a part of what the last epoch gained, is tried with less or rolled back.
            None for no limit.
        data: ``(x, y)``, rows to measure activations on; by default some of fit's.
        validation_data: ``(x, y)``, rows for the held-out loss; by default some of fit's
            validation data, else of its training data.
        samples: largest number of rows for either, 2048 by default.
        seed: seed of the ``random`` criterion, 0 by default.
        verbose: 0 for no lines; 1, the default, for one with totals of each event; 2 for a table of
            its groups of units, too.

    Raises:
        InputError: an argument is wrong.

    Attributes:
        events: record of each event, a dict for the report.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(256, 4)), rng.normal(size=(256, 1))
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(16, "relu"),
        ...                           keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> apoptosis = matex.Apoptosis("aggressive", verbose=0)
        >>> history = model.fit(x, y, batch_size=64, epochs=4, verbose=0, callbacks=[apoptosis])
        >>> model.count_params() <= 97
        True
    """

    def __init__(
        self,
        mode: str = "adaptive",
        criterion: str = "gram",
        *,
        first_epoch: int = 2,
        last_epoch: int | None = None,
        every: int = 0,
        pruning_ratio: float | None = None,
        target: str = "parameters",
        exclude: tuple[str, ...] | list[str] = (),
        delta: float | None = 0.005,
        data: tuple[Any, ...] | None = None,
        validation_data: tuple[Any, ...] | None = None,
        samples: int = 2048,
        seed: int = 0,
        verbose: int = 1,
    ) -> None:
        super().__init__()
        check_arguments(
            mode=mode,
            criterion=criterion,
            target=target,
            pruning_ratio=pruning_ratio,
            first_epoch=first_epoch,
            samples=samples,
            every=every,
        )
        self._given_options = Options(criterion=criterion, exclude=tuple(exclude), seed=seed)
        self._delta = delta
        self._mode = MODES[mode]
        self._epochs = first_epoch, last_epoch, every
        self._goal = pruning_ratio, target
        self._given = named(data), named(validation_data)
        self._count, self._verbose, self._began = samples, verbose, 0.0
        self.events: list[dict[str, Any]] = []
        keras_hooks.watch_fits()

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin a fit; called by Keras, see :class:`keras.callbacks.Callback`."""
        first, last, every = self._epochs
        if last is None:
            last = self.params["epochs"] - 2
        self._schedule = EventSchedule(first, last, every)
        self._thresholds = Thresholds(self._mode)
        self._options = self._given_options
        self._fresh, self._continues, self._cut_after = True, False, -1
        self._peers = peers_of_process()
        build_for_fit(self.model)
        self._samples = EventSamples(Traced(self.model), *self._given, most=self._count)
        self._samples.must_serve(self._options.criterion, self._net())
        self._size_at_start = size_of(self._net(), self._goal[1])
        self._tell = Teller(self.model, self._peers.say, self._verbose)
        self._budget = Budget(self._samples, self._peers, self._delta)
        if rebuild.continues(self.model):
            self.read_notes()
        self._budget.open(self.model)
        self._note()

    def read_notes(self) -> None:
        """Continue this fit from the notes that were saved with the model during it.

        Local. The run before this one made them, or the ranks that this one joins.
        """
        notes = rebuild.notes_of(self.model)
        self._continues = bool(notes)
        if notes:
            self._thresholds = replace(self._thresholds, taus=notes["taus"])
            self._schedule = replace(self._schedule, wait=notes["wait"], due=notes["due"])
            self._size_at_start = notes.get("size") or self._size_at_start
            self._budget.take_over(notes.get("progress", {}))
            known = {layer.name for layer in keras_hooks.flat_layers(self.model)}
            refused = (name for name in notes.get("refused", ()) if name in known)
            exclude = (*self._given_options.exclude, *refused)
            self._options = replace(self._options, exclude=exclude)

    def _note(self) -> None:
        """Note the state of the schedule with the model, for checkpoints."""
        notes = {
            "taus": self._thresholds.taus,
            "wait": self._schedule.wait,
            "due": self._schedule.due,
            "size": self._size_at_start,
            "progress": self._budget.notes(),
            "refused": self._options.exclude[len(self._given_options.exclude) :],
        }
        rebuild.note(self.model, notes)

    def _net(self) -> Network:
        """Network of the current model."""
        return trace(self.model, exclude=self._options.exclude)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch; called by Keras, see :class:`keras.callbacks.Callback`."""
        self._began = time.perf_counter()
        if self._fresh:
            self._fresh = False
            span, epochs = (self._schedule.first, self._schedule.last), self.params["epochs"]
            # Of a fit that continues another one, events may have been before.
            begun = 0 if self._continues else epoch
            self._tell(telling.no_event(*span, begun=begun, epochs=epochs))
            self._schedule = self._schedule.from_epoch(epoch)
            self._budget.from_epoch(epoch)
        if self._cut_after == epoch:  # by now all callbacks have seen the larger model's value
            keras_hooks.forget_best_weights()

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin a validation; called by Keras, see :class:`keras.callbacks.Callback`."""
        self._note_epoch_time()

    def _note_epoch_time(self) -> None:
        if self._began:
            self._epoch_s = time.perf_counter() - self._began
            self._began = 0.0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Hold an event if one is due; called by Keras, see :class:`keras.callbacks.Callback`."""
        self._note_epoch_time()
        if self._schedule.is_due(epoch + 1):
            self._come_to(epoch + 1, self._training_loss(logs))
        elif self._schedule.is_due(epoch + 2) and self._delta is not None:
            held_out = self._samples.of_network(self._net())
            loss = held_out.loss(self._peers)
            self._look(epoch + 1, loss, self._training_loss(logs), held_out.rows)

    def _come_to(self, epoch: int, training: float | None) -> None:
        """An event is due; *training* is the mean loss of the epoch."""
        started = time.perf_counter()
        goal = self._goal_of_fit()
        if goal is not None and goal.is_met(self._net()):
            left = size_of(self._net(), goal.measure) / self._size_at_start
            self._tell.once(telling.goal_is_met(goal.measure, 1 - left))
            return
        # A callback may have asked the leader alone to stop: the leader's value counts for all.
        if self._peers.leaders_value(float(self.model.stop_training)):
            return
        held_out = self._samples.of_network(self._net())
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
            self.model,
            self._options,
            self._thresholds,
            scoring=self._samples.scoring,
            held_out=held_out,
            peers=self._peers,
            goal=goal,
            before=before,
            allowed=allowed,
        )
        flops = outcome.flops[1] if goal is None else math.inf
        self._schedule = self._schedule.after(epoch, gone=outcome.gone, flops=flops)
        for change in outcome.changes:
            self._thresholds = self._thresholds.after(
                change.layer, part=change.part, kept=change.kept
            )
        exclude = (*self._options.exclude, *outcome.refused)
        self._options = replace(self._options, exclude=exclude)
        if outcome.changed:
            self._budget.spend(before, training)
            self._samples.choose_anew()  # a smaller network is judged by more rows
        self._look(epoch, outcome.loss_after, training, held_out.rows)
        self._record(epoch, outcome, time.perf_counter() - started)
        if self._schedule.is_over:
            self._tell(telling.is_over(epoch, outcome.flops[1]))
        if outcome.changed:
            self._cut_after = epoch
            keras_hooks.forget_best_weights()
            self._peers.renew(self.model)

    def _goal_of_fit(self) -> Goal | None:
        """The goal, if there is one: a share of the size with which this fit began."""
        ratio, measure = self._goal
        return None if ratio is None else Goal(measure, (1 - ratio) * self._size_at_start)

    def _training_loss(self, logs: Any) -> float | None:
        """Training loss of the leader; None if there is none, or it is not finite."""
        loss = self._peers.leaders_value(float((logs or {}).get("loss", math.nan)))
        return None if math.isnan(loss) else loss

    def _look(self, epoch: int, held_out: float, training: float | None, rows: int) -> None:
        self._budget.look(epoch, held_out, training, rows)
        self._note()

    def _record(self, epoch: int, outcome: Outcome, seconds: float) -> None:
        times = {"epoch": epoch, "epoch_s": self._epoch_s, "seconds": seconds}
        fields = telling.record_of(outcome) | times
        self.events.append(fields)
        self._peers.record(**fields)
        self._tell.event(epoch, outcome, seconds)

    def on_train_end(self, logs: Any = None) -> None:
        """End a fit; called by Keras, see :class:`keras.callbacks.Callback`."""
        keras_hooks.forget_fit()
