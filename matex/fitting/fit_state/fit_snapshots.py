"""Snapshots of a running fit: what a checkpoint of it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.checkpointing import model_state
from matex.checkpointing.buffer_pool import BufferPool
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.config.monitored import monitored
from matex.config.virtual import VIRTUAL
from matex.fitting.fit_state import fit_histories
from matex.fitting.fit_state.callback_memory import callbacks_held
from matex.fitting.fit_state.fit_facts import FitFacts
from matex.fitting.fit_state.saved_cursor import RAW, STOPPED, VALIDATED
from matex.fitting.listeners import Cursor
from matex.keras_hooks.log_values import numbers_in
from matex.run.context import RunContext

__all__ = ["FitSnapshots"]


class FitSnapshots:
    """Makes snapshots of a fit, for checkpoints and for ranks that join. Local.

    :class:`matex.fitting.fit_state.checkpoint_listener.CheckpointListener` decides when.

    Args:
        run: counts and options of the run.
        model: model being trained.
        facts: facts about the fit.
        number: number of the fit in the script, from 0.
        callbacks: callbacks of ``fit``.
    """

    def __init__(
        self, run: RunContext, model: Any, facts: FitFacts, *, number: int, callbacks: Any
    ) -> None:
        self._run = run
        self._model = model
        self._facts = facts
        self._number = number
        self._callbacks = keras_hooks.listed(callbacks)
        self._architecture: str | None = None
        self._nbytes: int | None = None
        self._buffers = BufferPool()

    def shapes_changed(self) -> None:
        """Measure the state again, because the model's shapes have changed."""
        self._architecture = self._nbytes = None

    def measure(self) -> None:
        """Tell the saver the size of the state; local, once until the shapes change."""
        if self._nbytes is None:
            self._nbytes = model_state.nbytes_of(self._model)
            self._run.saver.expect_bytes(self._nbytes)

    def hold(
        self,
        cursor: Cursor,
        *,
        logs: Mapping[str, Any] | None = None,
        more: Mapping[str, np.ndarray] | None = None,
        stopped: bool = False,
    ) -> DeferredSnapshot:
        """Current state, to be continued at *cursor*.

        Args:
            cursor: position in the data.
            logs: logs of the epoch that has just ended.
            more: arrays to put into ``extra``.
            stopped: whether training was stopped there, equal on all ranks.
        """
        if self._architecture is None:
            self._architecture = model_state.architecture_of(self._model)
        return model_state.hold(
            self._model,
            self._saved_cursor(cursor, stopped=stopped),
            architecture=self._architecture,
            extra={**self._extra(cursor, logs), **(more or {}), **self._score(logs)},
            pool=self._buffers,
        )

    def _saved_cursor(self, cursor: Cursor, *, stopped: bool) -> dict[str, int]:
        """Position in the data, in the form of a snapshot."""
        run, facts = self._run, self._facts
        saved_cursor = {
            **facts.seed.cursor(),
            "fit": self._number,
            "epoch": cursor.epoch,
            "samples": cursor.samples,
            "step": run.step,
            "mark": cursor.digest,
            RAW: int(facts.is_raw),
        }
        if stopped:
            saved_cursor[STOPPED] = 1
        if passes := facts.validated.number:
            saved_cursor[VALIDATED] = passes
        if run.ranks.virtual_workers:
            saved_cursor[VIRTUAL] = run.ranks.virtual_workers
        return saved_cursor

    def _extra(self, cursor: Cursor, logs: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        """Arrays beside those of the model."""
        run, model = self._run, self._model
        ended = None if logs is None else (cursor.epoch - 1, logs)
        histories = fit_histories.packed(
            run.elastic.waiting_newcomers.histories, keras_hooks.history_of(model, ended=ended)
        )
        return {
            **rebuild.history_of(model, model_state.weights_of(model)),
            **callbacks_held(self._callbacks),
            **run.records.ledger.job.extra(),
            **self._facts.packed(),
            fit_histories.HISTORIES: histories,
        }

    def _score(self, logs: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        """Score by which the best checkpoints are kept, where *logs* have the metric."""
        best = monitored(self._run.config.monitor)
        score = numbers_in(logs).get(best.name)
        return {} if score is None else {"score": np.array(score * best.sign)}
