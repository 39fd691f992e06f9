"""The moments at which a fit saves itself, or all ranks leave it with a checkpoint."""

from __future__ import annotations

from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.saver import FILES
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.fitting.listeners import Cursor, EpochReport, FitListener
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.preemption import checkpoint_and_exit
from matex.steps.engine import StepEngine

__all__ = ["CheckpointListener"]


class CheckpointListener(FitListener):
    """Saves what is due between steps and after epochs.

    Args:
        run: tiers of checkpoints, and stop requests.
        checkpoint: holds the state of the fit.
        engine: makes all replicas the one model that is saved.
    """

    def __init__(self, run: RunContext, checkpoint: FitCheckpoint, engine: StepEngine) -> None:
        self._run = run
        self._checkpoint = checkpoint
        self._engine = engine

    def epoch_begins(self) -> None:
        """Put metrics back, which Keras has reset, where the fit continues inside an epoch."""
        self._checkpoint.restore_metrics()

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Save what is due, leave if that was agreed; every rank calls it after the same step.

        Raises:
            PreemptedExit: on every rank.
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
        """Save the end of an epoch; collective, after a fit's last until it is written.

        Where ranks are missing, this is the moment to start all of them again.

        Raises:
            PreemptedExit: on every rank, where ranks are missing.
        """
        run = self._run
        if not report.is_complete:
            return
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
