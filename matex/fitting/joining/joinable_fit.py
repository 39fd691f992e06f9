"""State of a running fit, as a rank needs it that joins the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matex import keras_hooks
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.fitting.fit_state.fit_facts import FitFacts
from matex.fitting.fit_state.fit_snapshots import FitSnapshots
from matex.fitting.joining.fit_progress import FitProgress
from matex.fitting.joining.spare_handover import trained_before
from matex.fitting.listeners import Cursor
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.trained_models import TrainedModels
from matex.run.context import RunContext
from matex.steps.engine import StepEngine

__all__ = ["JoinableFit"]


class JoinableFit:
    """Snapshots of a fit for ranks that join it, and the progress with which those go on. Local.

    Args:
        run: counts and numbers of the run.
        model: model being trained.
        facts, snapshots, replicas: facts, snapshots and replica check of the fit.
        trained: models that the script has trained so far, *model* among them.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        facts: FitFacts,
        snapshots: FitSnapshots,
        replicas: ReplicaCheck,
        trained: TrainedModels,
    ) -> None:
        self._run = run
        self._model = model
        self._facts = facts
        self._snapshots = snapshots
        self._replicas = replicas
        self.trained = trained

    @property
    def data(self) -> list[float]:
        """Numbers about a few rows, to compare a newcomer's data with the other ranks'."""
        return self._facts.data

    def variables(self) -> list[int]:
        """Number of variables of each model and optimizer that the script has trained."""
        return [len(variables) for variables in self.trained.variables()]

    def plain_snapshot(self) -> DeferredSnapshot:
        """Snapshot of this rank alone, as at the beginning of a fit."""
        return self._snapshots.hold(Cursor(0, 0, 0))

    def snapshot(
        self,
        cursor: Cursor,
        engine: StepEngine,
        *,
        at_risk: Mapping[int, int] | None = None,
        ended: tuple[int, Mapping[str, Any]] | None = None,
    ) -> DeferredSnapshot:
        """Snapshot that a rank which joins continues at *cursor*.

        Args:
            cursor: position in the data.
            engine: engine of the steps.
            at_risk: samples of the running step that dead ranks left undone, by rank.
            ended: number and logs of the epoch that has just ended; None inside an epoch.
        """
        run = self._run
        progress = FitProgress(
            counts=run.records.ledger.counts(),
            replica_pace=self._replicas.pace,
            save_numbers=run.saver.numbers,
            history=keras_hooks.history_of(self._model, ended=ended),
            validated=self._facts.validated,
            at_risk=list((at_risk or {}).items()),
            checked=engine.checked,
            capacity=engine.capacity,
            histories=run.elastic.waiting_newcomers.histories,
            wanted=run.elastic.replacements.wanted,
            active=run.ranks.active,
        )
        trained = trained_before(self.trained, self._model) if run.config.respawn else {}
        return self._snapshots.hold(cursor, more={**progress.packed(), **trained})

    def go_on_from(self, progress: FitProgress) -> None:
        """Continue the counts and numbers of the other ranks, on a rank that joins."""
        run = self._run
        run.records.go_on_from(progress.counts)
        run.elastic.waiting_newcomers.inherit(progress.histories)
        run.elastic.replacements.wanted = progress.wanted
        run.ranks.active = progress.active  # it may have grown since the welcome
        run.saver.numbers = progress.save_numbers
        self._replicas.pace = progress.replica_pace
