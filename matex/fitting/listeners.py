"""Listeners to the steps and epochs of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from matex.records.step_report import StepReport

__all__ = ["Cursor", "EpochReport", "FitListener"]


class Cursor(NamedTuple):
    """A position between two steps; equal on all ranks."""

    epoch: int
    samples: int
    """Number of samples of the epoch that are done."""
    digest: int
    """Digest of all rows trained on: see :class:`matex.sources.interface.Source`."""
    epoch_samples: int | None = None
    """Number of samples of an epoch; None if not known beforehand."""

    @property
    def ends_epoch(self) -> bool:
        """Whether the last step ended the epoch, as far as known beforehand."""
        return self.samples == self.epoch_samples


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """A finished epoch, after the script's callbacks; equal on all ranks.

    ``logs`` are Keras's, ``metrics`` the numbers among them. ``is_complete`` is whether matex
    supplied all batches of the epoch, none skipped by a stop, ``is_last`` whether no epoch follows,
    ``is_stopped`` whether that is so because training was stopped, ``is_short`` whether ranks are
    missing that could be started again. ``digest`` is that of :class:`Cursor` at the epoch's end.
    """

    epoch: int
    logs: Mapping[str, Any]
    metrics: Mapping[str, float]
    digest: int
    is_complete: bool
    is_last: bool
    is_stopped: bool
    is_short: bool


class FitListener:
    """Base of objects that act between steps. Every rank calls them at the same points, in order.

    The methods here do nothing, so a listener defines only those that it needs.
    """

    def epoch_begins(self) -> None:
        """Act before the first step of an epoch, after metrics were reset; local."""

    def step_begins(self) -> None:
        """Act before a step that the ranks share; it may be collective.

        Raises:
            NotShareable: the step cannot be shared any more; on every rank.
        """

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Act after a step that the ranks shared; it may be collective."""

    def batch_done(self, cursor: Cursor, *, stops: bool) -> None:
        """Act after the callbacks of a batch; it may be collective.

        Args:
            cursor: position after the batch.
            stops: whether this rank wants training to stop here.
        """

    def data_ended(self) -> None:
        """Act where the data of an epoch end, if plain Keras learns it from a fetch; local."""

    def steps_ended(self) -> None:
        """Act after the last step of an epoch, if the ranks shared it; local.

        All replicas are the one model, and no callback of the epoch's end was called yet.
        """

    def epoch_done(self, report: EpochReport) -> None:
        """Act after the callbacks of an epoch; it may be collective."""
