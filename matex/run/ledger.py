"""The counts of a run on this rank, written only here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matex.records.step_report import StepReport
from matex.records.summary import Totals
from matex.run.job_counts import JobCounts

__all__ = ["RunLedger"]


class RunLedger:
    """Counts steps, samples, epochs and parameters over all fits of the script. Local.

    ``job`` saves them in checkpoints, from which a later start of the job continues.

    Args:
        totals: counts at the start.
    """

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self.job = JobCounts(totals)
        self._step = 0

    @property
    def totals(self) -> Totals:
        """Counts so far, to be read."""
        return self._totals

    @property
    def step(self) -> int:
        """Number of the next training step of the whole script.

        It is counted from 0 over all fits and over resumptions.
        """
        return self._step

    def go_to_step(self, step: int) -> None:
        """Set the number of the next step to *step*, after steps of an earlier start."""
        self._step = step

    def expect_samples(self, samples: int) -> None:
        """Count *samples* to be trained on; negative if they are left out after all."""
        self._totals.samples_expected += samples

    def count_step(self, report: StepReport) -> None:
        """Count a finished step; its number advances with :meth:`next_step`."""
        self._totals.count(report)

    def next_step(self) -> None:
        """Advance to the next step, after everything of this one was recorded."""
        self._step += 1

    def count_epoch(self, metrics: Mapping[str, float], staleness: Mapping[int, int]) -> None:
        """Count a finished epoch.

        Args:
            metrics: values of its metrics.
            staleness: number of pushes by staleness, of a centre strategy.
        """
        self._totals.epochs += 1
        self._totals.metrics = dict(metrics)
        self._totals.staleness.update(staleness)

    def begin_fit(self, parameters: int) -> None:
        """Record that a fit begins with a model of so many *parameters*.

        Another number than at the end of the fit before is another model's.
        """
        if parameters != self._totals.parameters_end:
            self._totals.parameters_start = parameters
        self.note_parameters(parameters)

    def note_parameters(self, parameters: int) -> None:
        """Record the number of parameters that the model of the running fit has now."""
        self._totals.parameters_end = parameters

    def counts(self) -> dict[str, Any]:
        """Counts from which a rank that replaces another continues; equal on all ranks."""
        return {"step": self.step, "job": self.job.job, **self._totals.counts()}

    def go_on_from(self, counts: Mapping[str, Any]) -> None:
        """Set this rank's counts to the :meth:`counts` of another rank."""
        self.go_to_step(counts["step"])
        self.job.job = counts["job"]
        self._totals.go_on_from(counts)
