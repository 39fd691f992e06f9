"""The event of a fit that begins, and the line on how its numbers compare with plain Keras's."""

from __future__ import annotations

from matex import keras_hooks
from matex.fitting.epoch_parts import FitStart
from matex.fitting.fit_parts import FitParts
from matex.fitting.fit_step import say_dense
from matex.fitting.listeners import Cursor, FitListener
from matex.records.equality import in_words
from matex.records.step_report import StepReport
from matex.sources.interface import Source
from matex.steps.model_step import ModelStep

__all__ = ["Announcement"]


class Announcement(FitListener):
    """Event of a fit, and line on how its numbers compare with plain Keras's. Local.

    It is repeated where the comparison comes to something else: when a step is traced anew, and
    after the first step, since what an eager one does is known only then.

    Args:
        batch_size: number of rows of a global batch.
    """

    def __init__(self, fit: FitParts, source: Source, batch_size: int) -> None:
        self._fit = fit
        self._source = source
        self._batch_size = batch_size
        self._start = FitStart(fit.arguments["initial_epoch"])
        self._but_for: list[str] = []
        self._step: ModelStep | None = None  # whose first update is still to come

    def make(self, step: ModelStep, start: FitStart) -> None:
        """Make the announcement of a fit that begins with *step* at *start*."""
        differences, self._start, self._step = self._fit.differences, start, step
        self._but_for = differences.names(self._source, step)
        self._fit.whole.would_differ(differences.names(self._source), told=self._but_for)
        self._say(self._but_for)

    def repeat(self, step: ModelStep) -> None:
        """Repeat it if a *step* that was made anew has other differences."""
        say_dense(self._fit.run, step)
        if (now := self._fit.differences.names(self._source, step)) != self._but_for:
            self._but_for = now
            self._say(now)

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        step, self._step = self._step, None
        if step is not None:
            self.repeat(step)

    def _say(self, but_for: list[str]) -> None:
        fit, run = self._fit, self._fit.run
        if run.ranks.virtual_workers:
            run.terminal.say_once(f"virtual workers: {run.ranks.virtual_workers} share each batch")
        if run.ranks.active > 1:
            run.terminal.say_once(f"numbers: {in_words(but_for)}")
        if run.communicator.world.awaits_admission:  # it is of the others
            return
        run.records.note(
            "fit",
            fit=fit.number,
            samples=self._source.samples,
            order=self._source.order,
            batch_size=self._batch_size,
            parameters=keras_hooks.parameters(fit.model),
            epochs=fit.arguments["epochs"],
            strategy=fit.plan.strategy.name,
            but_for=but_for,
            virtual=run.ranks.virtual_workers,
            first_epoch=self._start.epoch,
            cursor=self._start.samples,
            world_size=run.ranks.size_of(run.communicator.world),
        )
