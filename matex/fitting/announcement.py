"""The event of a fit that begins, and the line on how its numbers compare with plain Keras's."""

from __future__ import annotations

from matex import keras_hooks
from matex.fitting.fit_parts import FitParts
from matex.fitting.fit_step import say_dense
from matex.fitting.listeners import Cursor
from matex.records.equality import in_words
from matex.sources.interface import Source
from matex.steps.traced_step import AnyStep

__all__ = ["Announcement"]


class Announcement:
    """Event of a fit, and line on how its numbers compare with plain Keras's. Local.

    Args:
        batch_size: number of rows of a global batch.
    """

    def __init__(self, fit: FitParts, source: Source, batch_size: int) -> None:
        self._fit = fit
        self._source = source
        self._batch_size = batch_size
        self._start = Cursor(fit.arguments["initial_epoch"], 0, 0)
        self._but_for: list[str] = []

    def make(self, step: AnyStep, start: Cursor) -> None:
        """Make the announcement of a fit that begins with *step* at *start*."""
        plan, self._start = self._fit.plan, start
        self._but_for = plan.differences(self._source, step)
        self._fit.whole.would_differ(plan.differences(self._source), told=self._but_for)
        self._say(self._but_for)

    def repeat(self, step: AnyStep) -> None:
        """Repeat it if a *step* that was made anew has other differences."""
        say_dense(self._fit.run, step)
        if (now := self._fit.plan.differences(self._source, step)) != self._but_for:
            self._say(now)

    def _say(self, but_for: list[str]) -> None:
        fit, run = self._fit, self._fit.run
        if run.virtual_workers:
            run.say_once(f"virtual workers: {run.virtual_workers} share each batch")
        if run.active > 1:
            run.say_once(f"numbers: {in_words(but_for)}")
        if run.communicator.world.apart:  # it is of the others
            return
        run.events.write(
            "fit",
            fit=fit.number,
            step=run.step,
            samples=self._source.samples,
            order=self._source.order,
            batch_size=self._batch_size,
            parameters=keras_hooks.parameters(fit.model),
            epochs=fit.arguments["epochs"],
            strategy=fit.plan.strategy.name,
            but_for=but_for,
            virtual=run.virtual_workers,
            first_epoch=self._start.epoch,
            cursor=self._start.samples,
            world_size=run.size_of(run.communicator.world),
        )
