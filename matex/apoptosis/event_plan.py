"""The plan of a fit's events, and what follows from each. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from matex.apoptosis.outcome import Outcome
from matex.apoptosis.schedule import EventSchedule, Thresholds
from matex.apoptosis.targets import Goal

__all__ = ["EventPlan"]


@dataclass(frozen=True)
class EventPlan:
    """The plan of the events of one fit.

    ``size_at_start`` is the size of the model with which the fit began, by ``measure``;
    ``pruning_ratio`` the fraction of it that is to go, None for no limit; ``refused`` are the
    layers that events have found unfit to shrink.
    """

    schedule: EventSchedule
    thresholds: Thresholds
    measure: str
    pruning_ratio: float | None
    size_at_start: float
    refused: tuple[str, ...] = ()

    @property
    def goal(self) -> Goal | None:
        """The goal, if there is one: a share of the size with which the fit began."""
        ratio = self.pruning_ratio
        return None if ratio is None else Goal(self.measure, (1 - ratio) * self.size_at_start)

    def from_epoch(self, epoch: int) -> EventPlan:
        """Plan of a fit that begins after *epoch*."""
        return replace(self, schedule=self.schedule.from_epoch(epoch))

    def after(self, epoch: int, outcome: Outcome) -> EventPlan:
        """Plan after an event at the end of *epoch*."""
        flops = outcome.flops[1] if self.pruning_ratio is None else math.inf
        thresholds = self.thresholds
        for change in outcome.changes:
            thresholds = thresholds.after(change.layer, part=change.part, kept=change.kept)
        return replace(
            self,
            schedule=self.schedule.after(epoch, gone=outcome.gone, flops=flops),
            thresholds=thresholds,
            refused=(*self.refused, *outcome.refused),
        )

    def notes(self) -> dict[str, Any]:
        """Values that change during a fit, as JSON values."""
        return {
            "taus": self.thresholds.taus,
            "wait": self.schedule.wait,
            "due": self.schedule.due,
            "size": self.size_at_start,
            "refused": self.refused,
        }

    def continued(self, notes: Mapping[str, Any], layers: Collection[str]) -> EventPlan:
        """Plan as it was when *notes* were made in the same fit.

        Args:
            notes: result of :meth:`notes`.
            layers: names of the model's layers.
        """
        return replace(
            self,
            thresholds=replace(self.thresholds, taus=notes["taus"]),
            schedule=replace(self.schedule, wait=notes["wait"], due=notes["due"]),
            size_at_start=notes.get("size") or self.size_at_start,
            refused=tuple(name for name in notes.get("refused", ()) if name in layers),
        )
