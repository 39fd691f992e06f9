"""Counts of steps that consist of updates by one or several optimizers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from matex.exchange.traffic import Traffic
from matex.records.step_report import StepReport
from matex.run.run_steps import RunSteps

__all__ = ["StepCounts"]


class StepCounts:
    """Counts the updates of a train step as one step, and each update outside of one. Local.

    Args:
        steps: services of the run, which count each step.
    """

    def __init__(self, steps: RunSteps) -> None:
        self._steps = steps
        self._updates: list[StepReport] | None = None  # of the running train step; None outside
        self._has_several = False
        self._newest = 0

    @contextlib.contextmanager
    def train_step(self, *, has_several: bool = False) -> Iterator[None]:
        """Context of a train step, of which nothing is counted after an exception.

        Args:
            has_several: whether one train step may follow another, as with ``steps_per_execution``;
                False by default.
        """
        self._updates, self._has_several = [], has_several
        try:
            yield
            self._count()
        finally:
            self._updates = None

    def update_begins(self, place: int) -> None:
        """Note that an update begins with this *place* among those of a train step."""
        if self._has_several and place <= self._newest:
            self._count()  # it is of the next train step
        self._newest = place

    def update_done(self, report: StepReport) -> None:
        """Note the *report* of the update that has begun."""
        if self._updates is None:
            self._steps.step_done(report)
        else:
            self._updates.append(report)

    def _count(self) -> None:
        """Count a step of all updates since the last one, if there are any."""
        if not self._updates:
            return
        sent = Traffic()
        for update in self._updates:
            sent = sent.plus(update.sent)
        report = StepReport(
            samples=self._updates[0].samples,
            planned=self._updates[0].planned,
            step_s=sum(update.step_s for update in self._updates),
            exchange_s=sum(update.exchange_s for update in self._updates),
            sent=sent,
        )
        self._updates.clear()
        self._steps.step_done(report)
