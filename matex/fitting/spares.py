"""The spares of a fit: they wait while it trains, and go on in the place of a rank that died.

A spare runs the script like any rank, up to the first step of a fit: its model is built, its
step traced, its data open. There it waits. When it is needed it gets what a checkpoint would
hold, from a rank that lives, and begins in the running step. When the fit is over it gets the
same, and goes on with the script. Outside of fits spares work like all others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

import checkpoints
import ft
from matex import keras_hooks
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.stop_requests import SpareReleased
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.fitting.listeners import Cursor, EpochReport, FitListener
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.spare_handover import PROGRESS, Handover
from matex.run.context import RunContext

__all__ = ["FitSpares"]


def _validated(model: Any) -> list[int] | None:
    """``passed`` of what the running fit validates with; None before the first time."""
    iterator = keras_hooks.validation_of(model)
    return None if iterator is None else list(getattr(iterator, "passed", (0, 0, -1)))


class FitSpares(FitListener):
    """The ranks in reserve during one fit; its :class:`matex.steps.services.OpenSlots`.

    Args:
        run: ranks of the run.
        model: model that is trained.
        checkpoint, replicas: checkpoints and check of replicas of the fit.
    """

    def __init__(
        self, run: RunContext, model: Any, checkpoint: FitCheckpoint, replicas: ReplicaCheck
    ) -> None:
        self._run = run
        self._model = model
        self._checkpoint = checkpoint
        self._replicas = replicas
        self._iterator: EpochIterator | None = None  # of a fit in which spares wait

    def open(self, iterator: EpochIterator) -> Handover | None:
        """Set the spares aside before the first step of *iterator*; collective.

        Returns None immediately on the ranks that work; on a spare the handover, when it is a
        member again.

        Raises:
            SpareReleased: on a spare, when the others leave.
        """
        run, communicator = self._run, self._run.communicator
        if not run.config.spares:
            return None
        if communicator.world.reserve:  # they know nothing of this fit
            run.say("no spares for this fit: they wait in an earlier one, which ended in an error")
            return None
        self._iterator = iterator
        iterator.engine.admit(self)
        if communicator.set_aside(run.active):
            run.record_reserve()
            return None
        run.events.write("waits", step=run.step)
        with run.watchdog.working(False):
            iterator.engine.prepare()
            called = communicator.wait(idle=run.idle)
        if called.met == ft.Purpose.CLOSE:
            run.outcome.release()
            raise SpareReleased
        before, after = called.before.ranks, called.after.ranks
        return self._receive(
            [rank for rank in after if rank in before], over=called.met == ft.Purpose.RETURN
        )

    def fill(self, recovery: ft.Recovery | None) -> None:
        """Let spares begin in the running step; collective over the ranks that work.

        It is local where no place is vacant. It returns when each newcomer has the state that it
        needs, or is lost.

        Args:
            recovery: recovery that interrupted the step, and may have filled places; None for none.
        """
        communicator = self._run.communicator
        replaced = () if recovery is None else recovery.replaced
        iterator = self._iterator
        assert iterator is not None
        at_risk = {} if recovery is None else dict(iterator.engine.at_risk)
        while replaced := replaced or communicator.fill():
            newcomers = {spare for _, spare in replaced}
            self._send(newcomers, lambda: self._hold(iterator.step_cursor, at_risk=at_risk))
            replaced = ()

    def epoch_done(self, report: EpochReport) -> None:
        """Call the spares back after the last epoch; collective over the ranks that work."""
        communicator = self._run.communicator
        if not report.is_last or self._iterator is None:
            return
        self._iterator = None
        before = communicator.world.ranks
        self._run.call_spares_back()
        newcomers = set(communicator.world.ranks) - set(before)
        if newcomers:
            after = Cursor(report.epoch + 1, 0, report.digest)
            ended = (report.epoch, report.logs)
            self._send(newcomers, lambda: self._hold(after, ended=ended))

    def _hold(
        self,
        cursor: Cursor,
        *,
        at_risk: Mapping[int, int] | None = None,
        ended: tuple[int, Mapping[str, Any]] | None = None,
    ) -> DeferredSnapshot:
        progress = {
            "run": self._run.ledger.counts(),
            "replicas": self._replicas.pace,
            "saver": self._run.saver.numbers,
            "history": keras_hooks.history_of(self._model, ended=ended),
            "validated": _validated(self._model),
            "at_risk": list((at_risk or {}).items()),
            "tried": [] if self._iterator is None else self._iterator.engine.tried,
        }
        content = np.frombuffer(json.dumps(progress).encode(), np.uint8)
        return self._checkpoint.hold(cursor, more={PROGRESS: content})

    def _send(self, to: Collection[int], take: Callable[[], DeferredSnapshot]) -> None:
        """Give *to* the state; collective. All others hold the same, so any of them can."""
        communicator = self._run.communicator
        sources = [rank for rank in communicator.world.ranks if rank not in to]
        content = checkpoints.to_bytes(take().snapshot())
        size = np.array([content.size], np.int64)
        communicator.broadcast(size, sources=sources)
        if content.size != size[0]:  # ours is not the same: take the other, so that nobody hangs
            content = np.zeros(int(size[0]), np.uint8)
        communicator.broadcast(content, sources=sources)

    def _receive(self, sources: list[int], *, over: bool) -> Handover:
        """The state that the *sources* send; collective."""
        communicator = self._run.communicator
        size = np.zeros(1, np.int64)
        communicator.broadcast(size, sources=sources)
        content = np.zeros(int(size[0]), np.uint8)
        communicator.broadcast(content, sources=sources)
        try:
            saved = checkpoints.from_bytes(content)
        except checkpoints.CheckpointError as error:
            ft.fail_stop(f"a spare wants the state of the others. Received: {error}")
        handover = Handover(saved, over=over)
        self._run.go_on_from(handover.progress["run"])
        self._replicas.pace = handover.progress["replicas"]
        self._run.saver.numbers = handover.progress["saver"]
        return handover
