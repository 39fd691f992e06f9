"""Listener that saves a fit, or lets all ranks leave it with a checkpoint."""

from __future__ import annotations

from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.saver import FILES
from matex.config.monitored import monitored
from matex.fitting.fit_state.fit_restoration import FitRestoration
from matex.fitting.fit_state.fit_snapshots import FitSnapshots
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
        snapshots: snapshots of the fit.
        restoration: restoration of a fit that continues.
        engine: engine of the steps, for the consensus before a checkpoint.
    """

    def __init__(
        self,
        run: RunContext,
        snapshots: FitSnapshots,
        restoration: FitRestoration,
        engine: StepEngine,
    ) -> None:
        self._run = run
        self._snapshots = snapshots
        self._restoration = restoration
        self._engine = engine
        self._bits = 0  # of the tiers in which a checkpoint is due after the callbacks of the batch
        self._is_patient = self._leaves = False

    def epoch_begins(self) -> None:
        """Restore the epoch that has begun again, if the fit continues inside it."""
        self._restoration.restore_epoch()

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Note what was agreed in a step; every rank calls it after the same one. Local."""
        self._snapshots.measure()
        self._restoration.end()
        due = self._is_due() and not cursor.ends_epoch
        self._bits |= report.agreed.save | (FILES if due else 0)
        self._is_patient |= due
        self._leaves |= report.agreed.leave

    def batch_done(self, cursor: Cursor, *, stops: bool) -> None:
        """Save if due, and leave if agreed, once callbacks have seen the batch. Collective.

        Raises:
            PreemptedExit: on every rank, if all ranks leave.
        """
        bits, patient, self._bits, self._is_patient = self._bits, self._is_patient, 0, False
        if not (bits or self._leaves):
            return
        run = self._run
        stopped = not run.communicator.agree(not stops)

        def make_state() -> DeferredSnapshot:
            return self._snapshots.hold(cursor, stopped=stopped)

        self._engine.consensus()
        if self._leaves:
            checkpoint_and_exit(run, make_state)
        run.steps.faults.at("checkpoint")
        run.saver.save(bits, make_state, patient=patient)

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
        if run.config.keep_best and run.config.checkpoint and best.name not in report.metrics:
            run.terminal.say_once(best.line_without(report.metrics))
        self._snapshots.measure()
        after = Cursor(report.epoch + 1, 0, report.digest)

        def make_state() -> DeferredSnapshot:
            return self._snapshots.hold(after, logs=report.logs, stopped=report.is_stopped)

        if report.is_last:
            run.saver.save_for_all(make_state)
            return
        if report.is_short:
            run.stop_request.ask_for_missing()
            checkpoint_and_exit(run, make_state)
            return
        run.steps.faults.at("checkpoint")
        run.saver.save(FILES, make_state, patient=self._is_due())

    def _is_due(self) -> bool:
        """Whether ``--checkpoint-every`` wants a checkpoint of the newest step."""
        every = self._run.config.checkpoint_every
        return bool(every and self._run.step % every == 0)
