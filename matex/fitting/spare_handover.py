"""What a spare does with the state of the others, so that it stands where they do. Local."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import checkpoints
from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.sources.stream import Stream
from matex.steps.engine import Training

__all__ = ["GOING", "Handover"]

#: The name in ``extra`` of what no checkpoint needs, as JSON.
GOING = "going"


class Handover:
    """What a spare was told when it became a member again.

    ``going`` is what the others count and know.

    Args:
        saved: their state.
        over: whether the fit is; else it goes on with the step that they are in.
    """

    def __init__(self, saved: checkpoints.Snapshot, *, over: bool) -> None:
        self.saved = saved
        self.over = over
        self.going: dict[str, Any] = json.loads(saved.extra[GOING].tobytes())
        self._validated: list[int] | None = self.going["validated"]

    def restore(self, model: Any, fit_state: FitCheckpoint, callbacks: Any) -> None:
        """Put back all but what the first epoch does; the callbacks have begun.

        Raises:
            InputError: it is of another model.
        """
        model_state.restore(model, self.saved)
        fit_state.saved = self.saved
        fit_state.seed = self.saved.cursor["seed"]
        fit_state.restore_callbacks()
        for callback in keras_hooks.listed(callbacks):
            if hasattr(callback, "read_notes"):
                callback.read_notes()
        keras_hooks.set_history(model, self.going["history"])
        if self.over:
            model_state.restore_metrics(model, self.saved)
            fit_state.saved = None

    def begin(self, model: Any, training: Training, arguments: Mapping[str, Any]) -> None:
        """Let *training* begin in the running step, or, if the fit is over, not at all.

        Args:
            arguments: arguments of ``model.fit``.
        """
        training.be_tried()
        if self.over:
            keras_hooks.start_at(model, arguments["epochs"])
            return
        cursor, source = self.saved.cursor, training.source
        if isinstance(source, Stream):
            epochs = cursor["epoch"] - arguments["initial_epoch"]
            source.resume(epochs, cursor["mark"], alone=True)
        keras_hooks.start_at(model, cursor["epoch"])
        training.join(cursor["epoch"], cursor["samples"], dict(self.going["at_risk"]))

    def passed_validation(self) -> tuple[int, ...] | None:
        """The ``passed`` of the others' validation when this rank joined, told once; else None."""
        validated, self._validated = self._validated, None
        return None if validated is None else tuple(validated)

    def end(self, model: Any) -> None:
        """After the fit: its history is as long as that of the others."""
        keras_hooks.add_epochs(model)
