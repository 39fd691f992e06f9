"""Counts of a job, kept in its checkpoints, from which a later start continues."""

from __future__ import annotations

import json

import numpy as np

import checkpoints
import ft
from matex.records.events import EventLog
from matex.records.starts import job_times
from matex.records.summary import Totals

__all__ = ["JobCounts"]

_NAME = "job"


class JobCounts:
    """Counts of the job of *totals*.

    A job is identified by its report: a run that continues a checkpoint with another report
    directory is another job, and counts from 0.
    """

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._job = 0.0

    def begin(
        self,
        communicator: ft.Communicator,
        events: EventLog,
        saved: checkpoints.Snapshot | None,
    ) -> None:
        """Continue the counts of *saved*, if it was made in this job; collective."""
        answer = ft.one_answer(communicator, lambda: json.dumps(job_times(events.all())).encode())
        times = json.loads(answer) or [0.0]
        self._job = min(times)
        if saved is None or _NAME not in saved.extra:
            return
        counts = json.loads(saved.extra[_NAME].tobytes())
        if counts["job"] in times:
            self._totals.go_on_from(counts)

    @property
    def job(self) -> float:
        """Time that identifies the job; 0.0 before it is known."""
        return self._job

    @job.setter
    def job(self, job: float) -> None:
        self._job = job

    def extra(self) -> dict[str, np.ndarray]:
        """Counts for a checkpoint made now, as an array; equal on all ranks.

        They expect the samples of finished steps only: the fit that continues
        knows the remaining ones.
        """
        totals = self._totals
        counts = {**totals.counts(), "samples_expected": totals.samples_planned, "job": self._job}
        return {_NAME: np.frombuffer(json.dumps(counts).encode(), np.uint8)}
