"""The state that a promoted spare receives, and its use in the running fit. Local."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.fit_parts import FitParts
from matex.fitting.joining.fit_progress import FitProgress
from matex.fitting.trained_models import TrainedModels
from matex.run.context import RunContext
from matex.sources.stream import Stream

__all__ = ["Handover", "give_files", "trained_before"]

_TRAINED = "trained/"


def trained_before(trained: TrainedModels, model: Any) -> dict[str, np.ndarray]:
    """Values of all variables that the script has trained outside *model*, for ``extra``."""
    own = {id(variable) for variable in model_state.variables_of(model)}
    return {
        f"{_TRAINED}{number}/{place}": np.array(variable.numpy())
        for number, variables in enumerate(trained.variables())
        for place, variable in enumerate(variables)
        if id(variable) not in own
    }


def give_files(run: RunContext) -> None:
    """Let newcomers take over the script's files; on the others, with :meth:`Handover.take_files`.

    Collective. The others are at the same place of the script, and write nothing meanwhile.
    """
    files = run.elastic.files
    if files is not None:
        files.hold_still()
    run.communicator.barrier()
    run.communicator.barrier()
    if files is not None:
        files.follow()


class Handover:
    """State that a promoted spare receives from a living rank.

    It is a checkpoint (``saved``), and the ``progress`` of the fit.

    Args:
        run: ranks of the run.
        saved: state of the other ranks.
        trained: models that the script has trained so far.
        over: whether the fit is over; else it continues with the running step.
    """

    def __init__(
        self, run: RunContext, saved: checkpoints.Snapshot, trained: TrainedModels, *, over: bool
    ) -> None:
        self._run = run
        self.saved = saved
        self._trained = trained
        self.over = over
        self.progress = FitProgress.stored_in(saved)
        self._has_files = False

    def restore(self, fit: FitParts) -> None:
        """Restore all state but that of the first epoch; after the callbacks have begun.

        Raises:
            InputError: the state belongs to another model.
        """
        model, restoration = fit.model, fit.restoration
        model_state.restore(model, self.saved)
        for number, variables in enumerate(self._trained.variables()):
            for place, variable in enumerate(variables):
                value = self.saved.extra.get(f"{_TRAINED}{number}/{place}")
                if value is not None:
                    variable.assign(value)
        fit.facts.take_over(self.saved, self.progress.validated)
        restoration.saved = self.saved
        restoration.restore_callbacks()
        for callback in keras_hooks.listed(fit.arguments["callbacks"]):
            if hasattr(callback, "read_notes"):
                callback.read_notes()
        keras_hooks.set_history(model, self.progress.history)
        if self.over:
            model_state.restore_metrics(model, self.saved)
            restoration.saved = None

    def take_files(self) -> bool:
        """Take over the script's files from the others; once, collective with :func:`give_files`.

        It is late, right before the first step: the callbacks that begin an epoch have been called
        here again, and what they wrote is in the others' files already.

        Returns:
            True in the first call.
        """
        if self._has_files:
            return False
        self._has_files = True
        files = self._run.elastic.files
        self._run.communicator.barrier()
        if files is not None:
            files.take_over()
        self._run.communicator.barrier()
        return True

    def begin(self, model: Any, iterator: EpochIterator, arguments: Mapping[str, Any]) -> None:
        """Let *iterator* begin in the running step or, if the fit is over, skip it.

        Args:
            arguments: arguments of ``model.fit``.
        """
        if self.progress.capacity is not None:
            iterator.engine.set_capacity(self.progress.capacity)
        iterator.engine.skip_separability_check(self.progress.checked)
        if self.over:
            keras_hooks.start_at(model, arguments["epochs"])
            self.take_files()
            return
        cursor, source = self.saved.cursor, iterator.source
        if isinstance(source, Stream):
            epochs = cursor["epoch"] - arguments["initial_epoch"]
            source.resume(epochs, cursor["mark"], is_raw=source.is_raw, alone=True)
        keras_hooks.start_at(model, cursor["epoch"])
        iterator.begin_at(cursor["epoch"], cursor["samples"])
        iterator.engine.join_running_step(dict(self.progress.at_risk))
