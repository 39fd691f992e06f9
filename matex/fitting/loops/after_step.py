"""Work after each step of a loop of the script: counts, comparison of replicas, requests."""

from __future__ import annotations

from typing import Any

from matex.fitting.joining.resizing import Resizing
from matex.fitting.listeners import Cursor
from matex.fitting.replica_check import ReplicaCheck
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.preemption import checkpoint_and_exit

__all__ = ["AfterStep"]

_NO_EPOCH = Cursor(0, 0, 0)


class AfterStep:
    """Counts, and the listeners of ``fit`` that a loop without epochs has, too.

    Args:
        run: ranks of the run.
        model: model that the steps train.
    """

    def __init__(self, run: RunContext, model: Any) -> None:
        self._run = run
        self._model = model
        self._listeners = (
            ReplicaCheck(run, model, every=run.config.check_every),
            Resizing(run),
        )

    def step_done(self, report: StepReport) -> None:
        """Count the step of *report*, and do what ranks have agreed on in it; collective.

        Raises:
            PreemptedExit: the ranks agreed to leave; on every rank.
        """
        run = self._run
        run.records.ledger.expect_samples(report.planned)
        run.steps.step_done(report, model=self._model)
        for listener in self._listeners:
            listener.step_done(report, _NO_EPOCH)
        if report.agreed.leave and not run.checkpoints.by_script:
            checkpoint_and_exit(run, None)
