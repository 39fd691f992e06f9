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
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.spare_handover import GOING, Handover
from matex.run.context import RunContext
from matex.steps.engine import Training

__all__ = ["FitSpares"]


def _validated(model: Any) -> list[int] | None:
    """``passed`` of what the running fit validates with; None before the first time."""
    iterator = keras_hooks.validation_of(model)
    return None if iterator is None else list(getattr(iterator, "passed", (0, 0, -1)))


class FitSpares:
    """The ranks in reserve during one fit.

    Args:
        state, replicas: checkpoints and check of replicas of the fit.
    """

    def __init__(
        self, run: RunContext, model: Any, state: FitCheckpoint, replicas: ReplicaCheck
    ) -> None:
        self._run = run
        self._model = model
        self._state = state
        self._replicas = replicas
        self._open = False

    def open(self, training: Training) -> Handover | None:
        """Before the first step of *training*: those beyond the ranks that work wait; collective.

        Returns at once on the ranks that work, with None; on a spare when it is a member again.

        Raises:
            Dismissed: on a spare, when the others leave.
        """
        run, communicator = self._run, self._run.communicator
        if not run.config.spares:
            return None
        if communicator.world.reserve:  # they know nothing of this fit
            run.say("no spares for this fit: they wait in an earlier one, which ended in an error")
            return None
        self._open = True
        training.admit(lambda recovery: self._refill(training, recovery))
        if communicator.set_aside(run.working):
            run.tell_reserve()
            return None
        run.events.write("waits", step=run.step)
        with run.watchdog.working(False):
            training.prepare()
            called = communicator.wait(idle=run.idle)
        if called.met == ft.Purpose.CLOSE:
            run.dismissed = True
            raise SpareReleased
        before, after = called.before.ranks, called.after.ranks
        return self._receive(
            [rank for rank in after if rank in before], over=called.met == ft.Purpose.RETURN
        )

    def _refill(self, training: Training, recovery: ft.Recovery | None) -> None:
        """Let spares begin in the running step of *training*; collective over those who work.

        Local where no place is vacant. Until each newcomer has what it needs, or is lost.

        Args:
            recovery: what the step was interrupted by, which may have brought some.
        """
        communicator = self._run.communicator
        replaced = () if recovery is None else recovery.replaced
        at_risk = {} if recovery is None else dict(training.at_risk)
        while replaced := replaced or communicator.fill():
            epoch, samples, mark = training.point
            self._send(
                {spare for _, spare in replaced},
                lambda: self._taken(epoch, samples, mark, at_risk=at_risk),  # noqa: B023
            )
            replaced = ()

    def close(self, epoch: int, mark: int, logs: Mapping[str, Any]) -> None:
        """At the end of the last epoch: all are members again; collective over those who work."""
        communicator = self._run.communicator
        if not self._open:
            return
        self._open = False
        before = communicator.world.ranks
        communicator.call_back()
        newcomers = set(communicator.world.ranks) - set(before)
        if newcomers:
            self._send(newcomers, lambda: self._taken(epoch + 1, 0, mark, ended=(epoch, logs)))

    def _taken(
        self,
        epoch: int,
        samples: int,
        mark: int,
        *,
        at_risk: Mapping[int, int] | None = None,
        ended: tuple[int, Mapping[str, Any]] | None = None,
    ) -> DeferredSnapshot:
        going = {
            "run": self._run.counts(),
            "replicas": self._replicas.pace,
            "saver": self._run.saver.numbers,
            "history": keras_hooks.history_of(self._model, ended=ended),
            "validated": _validated(self._model),
            "at_risk": list((at_risk or {}).items()),
        }
        content = np.frombuffer(json.dumps(going).encode(), np.uint8)
        return self._state.taken(epoch, samples, mark=mark, more={GOING: content})

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
        joined = Handover(saved, over=over)
        self._run.go_on_from(joined.going["run"])
        self._replicas.pace = joined.going["replicas"]
        self._run.saver.numbers = joined.going["saver"]
        return joined
