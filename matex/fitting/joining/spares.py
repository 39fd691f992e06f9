"""Spares and newcomers, which take the place of a dead rank in a running fit.

A spare runs the script like any rank, up to the first step of a fit: its model is built, its step
traced, its data open. There it waits. When it is needed it gets the content of a checkpoint from a
living rank, and begins in the running step. When the fit is over it gets the same, and goes on
with the script. Outside of fits spares work like other ranks.

A newcomer is a process that the leader starts when a rank is missing. It runs the script alone
up to that first step, is admitted by all ranks between two steps, and is a spare from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

import checkpoints
import ft
from matex import keras_hooks
from matex.checkpointing import model_state
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.joining.joinable_fit import JoinableFit
from matex.fitting.joining.spare_handover import Handover, give_files
from matex.fitting.joining.state_transfer import receive_snapshot, send_snapshot
from matex.fitting.listeners import Cursor, EpochReport, FitListener
from matex.preemption.exits import SpareReleased
from matex.records.step_report import StepReport
from matex.run.context import RunContext

__all__ = ["FitSpares"]


class FitSpares(FitListener):
    """Spares during one fit; its :class:`matex.steps.services.VacantPlaces`.

    Args:
        run: ranks of the run.
        model: model being trained.
        fit: state of the fit, for ranks that join it.
        number: number of the fit in the script, from 0.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        fit: JoinableFit,
        *,
        number: int,
    ) -> None:
        self._run = run
        self._model = model
        self._fit = fit
        self._number = number
        self._iterator: EpochIterator | None = None  # of a fit in which spares wait
        self._newcomers: set[int] = set()  # admitted, and without a place yet
        self._paused_s = 0.0
        self.came_too_late = False
        """Whether this rank, a newcomer, reached the fit after the others had ended it."""

    def open(self, iterator: EpochIterator) -> Handover | None:
        """Set the spares aside before the first step of *iterator*; collective.

        Returns None immediately on working ranks; on a spare the handover, when it is a member.

        Raises:
            SpareReleased: on a spare, when the others leave.
        """
        run, communicator = self._run, self._run.communicator
        if not run.config.spares and not run.config.respawn:
            return None
        if communicator.world.awaits_admission:
            return self._join(iterator)
        if communicator.world.spares:  # they know nothing of this fit
            run.terminal.say(
                "no spares for this fit: they wait in an earlier one, which ended in an error"
            )
            return None
        self._iterator = iterator
        iterator.engine.use_vacant_places(self)
        if run.config.respawn:
            run.elastic.replacements.open(self._number, self._fit.variables(), self._fit.data)
        if not run.config.spares or communicator.set_aside(run.ranks.active):
            run.elastic.record_spares()
            return None
        run.records.note("waits")
        self._rehearse(iterator)
        return self._wait()

    def _rehearse(self, iterator: EpochIterator) -> None:
        """Do once, with this rank's own state, the work for which other ranks would wait. Local.

        TensorFlow's first execution of an operation takes ten times as long.
        """
        with self._run.watchdog.working(False):
            iterator.engine.prepare()
            own = self._fit.plain_snapshot().snapshot()
            model_state.restore(self._model, checkpoints.from_bytes(checkpoints.to_bytes(own)))

    def _join(self, iterator: EpochIterator) -> Handover | None:
        """Wait until the others admit this newcomer, and then as a spare; on a newcomer.

        Raises:
            SpareReleased: the others leave.
        """
        run, joining = self._run, self._run.elastic.joining
        communicator = run.communicator
        assert joining is not None
        self._rehearse(iterator)
        with run.watchdog.working(False):
            admission = joining.arrive(self._number, self._fit.variables(), self._fit.data)
        if admission is None:
            keras_hooks.set_history(self._model, joining.histories[self._number])
            self.came_too_late = True
            return None
        communicator.join(admission)
        run.elastic.replacements.announce()
        run.elastic.waiting_newcomers.inherit(joining.histories.items())
        run.records.events.write("waits", step=None)
        self._iterator = iterator
        iterator.engine.use_vacant_places(self)
        run.elastic.replacements.open(self._number, self._fit.variables(), self._fit.data)
        return self._wait()

    def _wait(self) -> Handover:
        """Wait in reserve, and take over the state of the others when called.

        Raises:
            SpareReleased: the others leave.
        """
        run = self._run
        with run.watchdog.working(False):
            called = run.communicator.wait(idle=lambda: run.steps.faults.at("compute"))
        if called.agreed_purpose == ft.Purpose.CLOSE:
            run.outcome.release()
            raise SpareReleased
        before, after = called.before.ranks, called.after.ranks
        return self._receive(
            [rank for rank in after if rank in before],
            over=called.agreed_purpose == ft.Purpose.CALL_BACK,
        )

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Admit a newcomer, if that was agreed; then collective."""
        if not report.agreed.admit or self._iterator is None:
            return
        run, started = self._run, time.perf_counter()
        newcomer = run.elastic.replacements.take() if run.communicator.world.is_leader else None
        # The pool of spares is filled up where as many ranks train as are to.
        adds_place = run.communicator.world.size < run.ranks.active
        member = run.communicator.admit(newcomer, adds_place=adds_place)
        self._paused_s = time.perf_counter() - started
        if member is not None:
            self._newcomers.add(member.rank)
        run.elastic.replacements.joined(member, newcomer, step=run.step)

    def end(self) -> None:
        """Let no process join any more, also after an exception; local."""
        self._run.elastic.waiting_newcomers.close()

    def fill(self, recovery: ft.Recovery | None) -> None:
        """Let spares begin in the running step; collective over the working ranks.

        It is local if no place is vacant. It returns when each promoted spare has the state
        that it needs, or is lost.

        Args:
            recovery: recovery that interrupted the step, and may have filled places; None for none.
        """
        communicator = self._run.communicator
        replaced = () if recovery is None else recovery.replaced
        iterator = self._iterator
        assert iterator is not None
        at_risk = {} if recovery is None else dict(iterator.engine.at_risk)
        started = time.perf_counter()
        while replaced := replaced or communicator.fill():
            promoted = {spare for _, spare in replaced}
            self._send(
                promoted,
                lambda: self._fit.snapshot(iterator.step_cursor, iterator.engine, at_risk=at_risk),
            )
            self._note_pause(promoted, time.perf_counter() - started)
            replaced = ()

    def _note_pause(self, promoted: set[int], sending_s: float) -> None:
        """Record how long the others paused for *promoted*, if some of them were just admitted.

        Args:
            sending_s: duration of giving them places and the state, seconds.
        """
        run = self._run
        if promoted & self._newcomers and run.communicator.world.is_leader:
            paused_s = self._paused_s + sending_s
            run.records.note("took-over", ranks=sorted(promoted), pause_s=paused_s)
        self._newcomers -= promoted

    def epoch_done(self, report: EpochReport) -> None:
        """Call the spares back after the last epoch; collective over the working ranks."""
        communicator = self._run.communicator
        iterator = self._iterator
        if not report.is_last or iterator is None:
            return
        self._iterator = None
        self._run.elastic.waiting_newcomers.close()
        before = communicator.world.ranks
        self._run.elastic.call_spares_back()
        promoted = set(communicator.world.ranks) - set(before)
        if promoted:
            after = Cursor(report.epoch + 1, 0, report.digest)
            ended = (report.epoch, report.logs)
            self._send(promoted, lambda: self._fit.snapshot(after, iterator.engine, ended=ended))

    def _send(self, to: Collection[int], make_state: Callable[[], DeferredSnapshot]) -> None:
        """Send the state, and the script's files, to the ranks *to*; collective."""
        send_snapshot(self._run.communicator, make_state().snapshot(), to)
        give_files(self._run)

    def _receive(self, sources: list[int], *, over: bool) -> Handover:
        """Receive the state from one of the *sources*; collective."""
        saved = receive_snapshot(self._run.communicator, sources)
        handover = Handover(self._run, saved, self._fit.trained, over=over)
        self._fit.go_on_from(handover.progress)
        return handover
