"""Listeners to the steps and epochs of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from matex.records.step_report import StepReport

__all__ = ["Cursor", "EpochReport", "FitListener"]


class Cursor(NamedTuple):
    """A place between two steps; equal on all ranks."""

    epoch: int
    samples: int
    """The number of samples of the epoch that are done."""
    digest: int
    """A number that stands for all rows trained on: see :class:`matex.sources.interface.Source`."""
    epoch_samples: int | None = None
    """The number of samples of an epoch, where it is known beforehand."""

    @property
    def ends_epoch(self) -> bool:
        """Whether the last step ended the epoch, as far as is known beforehand."""
        return self.samples == self.epoch_samples


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """A finished epoch, after the script's callbacks have heard of it; equal on all ranks.

    ``logs`` are Keras's, ``metrics`` the numbers among them. ``is_complete`` says whether steps
    were shared and nothing of the epoch was left out by a stop, ``is_last`` whether no epoch
    follows, ``is_short`` whether ranks are missing that could be started again. ``digest`` is
    that of :class:`Cursor` at the epoch's end.
    """

    epoch: int
    logs: Mapping[str, Any]
    metrics: Mapping[str, float]
    digest: int
    is_complete: bool
    is_last: bool
    is_short: bool


class FitListener:
    """Something that acts between steps. Every rank calls it at the same places, in one order.

    What a listener does not need, it leaves as it is here.
    """

    def epoch_begins(self) -> None:
        """Act before the first step of an epoch, whose metrics have just been reset; local."""

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Act after a step that the ranks shared; it may be collective."""

    def epoch_done(self, report: EpochReport) -> None:
        """Act after the callbacks of an epoch; it may be collective."""
