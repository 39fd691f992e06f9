"""Record of a fit: counts of its steps and epochs, and their events."""

from __future__ import annotations

from typing import Any

from matex.checkpointing import model_state
from matex.fitting.fit_plan import FitPlan
from matex.fitting.listeners import Cursor, EpochReport, FitListener
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.sources.interface import Source

__all__ = ["FitRecord"]

# Fields of the event of an epoch, whose names a metric may have as well.
_FIELDS = frozenset(
    {"time_s", "rank", "event", "epoch", "step", "weights_hash", "rows", "strategy"}
)


class FitRecord(FitListener):
    """Counts steps and epochs in the ledger, and writes the events of epochs. Local.

    Args:
        run: run whose counts and events tell of the fit.
        model: model being trained.
        plan: strategy of the fit.
        source: source of the shared batches; None if every rank computes whole batches.
    """

    def __init__(self, run: RunContext, model: Any, plan: FitPlan, source: Source | None) -> None:
        self._steps = run.steps
        self._ranks = run.ranks
        self._records = run.records
        self._model = model
        self._plan = plan
        self._source = source

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Count the step, and the samples of a stream, which are counted as they arrive."""
        if cursor.epoch_samples is None:
            self._records.ledger.expect_samples(report.planned)
        self._steps.step_done(report, model=self._model)

    def epoch_done(self, report: EpochReport) -> None:
        """Count the epoch, and write its event."""
        of_strategy = self._plan.epoch_done(report.metrics.get("loss"))
        self._records.ledger.count_epoch(report.metrics, of_strategy.get("staleness", {}))
        more: dict[str, Any] = {"strategy": of_strategy} if of_strategy else {}
        if self._source is not None:
            more |= self._source.report()
        if self._ranks.virtual_workers:
            more["weights_hash"] = model_state.state_hash(self._model)
        metrics = {f"metric_{n}" if n in _FIELDS else n: v for n, v in report.metrics.items()}
        self._records.note("epoch", epoch=report.epoch, **metrics, **more)
