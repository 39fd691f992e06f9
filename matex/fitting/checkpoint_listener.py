"""Listener that saves a fit, or lets all ranks leave it with a checkpoint."""

from __future__ import annotations

from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.saver import FILES
from matex.config.monitored import monitored
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.fitting.listeners import Cursor, EpochReport, FitListener
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.preemption import checkpoint_and_exit
from matex.steps.engine import StepEngine

__all__ = ["CheckpointListener"]


class CheckpointListener(FitListener):
    """Saves checkpoints that are due between steps and after epochs.

    Args:
        run: tiers of checkpoints, and stop requests.
        checkpoint: state of the fit.
        engine: maker of the steps, for the consensus before a checkpoint.
    """

    def __init__(self, run: RunContext, checkpoint: FitCheckpoint, engine: StepEngine) -> None:
        self._run = run
        self._checkpoint = checkpoint
        self._engine = engine

    def epoch_begins(self) -> None:
        """Restore the epoch that has begun again, if the fit continues inside it."""
        self._checkpoint.restore_epoch()

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Save if due, and leave if agreed; every rank calls it after the same step.

        Raises:
            PreemptedExit: on every rank, if all ranks leave.
        """
        run = self._run
        self._checkpoint.measure()

        def take() -> DeferredSnapshot:
            return self._checkpoint.hold(cursor)

        if report.agreed.leave:
            self._engine.consensus()
            checkpoint_and_exit(run, take)
        every = run.config.checkpoint_every
        due = every and run.step % every == 0 and not cursor.ends_epoch
        bits = report.agreed.save | (FILES if due else 0)
        if bits:
            self._engine.consensus()
            run.faults.at("checkpoint")
            run.saver.save(bits, take, patient=bool(due))

    def epoch_done(self, report: EpochReport) -> None:
        """Save the end of an epoch; collective, waiting for the file after a fit's last epoch.

        If ranks are missing, all ranks leave here to be started again.

        Raises:
            PreemptedExit: on every rank, if ranks are missing.
        """
        run = self._run
        if not report.is_complete:
            return
        best = monitored(run.config.monitor)
        if run.config.keep_best and run.config.checkpoint and best.name not in report.logs:
            run.say_once(best.line_without(report.logs))
        self._checkpoint.measure()
        after = Cursor(report.epoch + 1, 0, report.digest)

        def take() -> DeferredSnapshot:
            return self._checkpoint.hold(after, logs=report.logs)

        if report.is_last:
            run.save_for_all(take)
            return
        if report.is_short:
            run.stop_request.ask_for_missing()
            checkpoint_and_exit(run, take)
            return
        run.faults.at("checkpoint")
        run.saver.save(FILES, take)
