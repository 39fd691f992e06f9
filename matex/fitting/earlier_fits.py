"""The fits before the running one: passed over by who comes later, and what became of models."""

from __future__ import annotations

import weakref
from typing import Any

import checkpoints
from matex import keras_hooks
from matex.apoptosis import rebuild
from matex.checkpointing import model_state
from matex.errors import NotShareable
from matex.fitting import fit_histories
from matex.fitting.trained_models import TrainedModels
from matex.run.context import RunContext
from matex.sources.select import rows_of

__all__ = ["EarlierFits"]


class EarlierFits:
    """The results of earlier fits, for a run that continues in a later one.

    A checkpoint holds the model of its own fit. When a fit of another model begins, what has become
    of the last one is saved beside the checkpoints, and a run that continues gives it back where it
    passes over fits of that model.

    Args:
        run: run that the fits are part of.
        trained: models that the script has trained so far.
    """

    def __init__(self, run: RunContext, trained: TrainedModels) -> None:
        self._run = run
        self._trained = trained
        self._known: list[weakref.ref[Any]] = []  # in the order of their first fits
        self._unsaved: Any = None

    def begin(self, model: Any) -> None:
        """A fit of *model* begins; collective."""
        before, self._unsaved = self._unsaved, model
        self._remember(model)
        aside = self._run.saver.aside
        if aside is None or before is None or before is model:
            return
        if not self._run.communicator.world.apart:
            number = self._number(before)
            aside.save(number, lambda: _held(before, number))

    def passed_over(self, model: Any, arguments: dict[str, Any], *, number: int) -> Any:
        """Pass over a fit that was made before; collective, but on a process that joins others.

        That one knows the history that they had, and gets the model's weights with all else when it
        is admitted; those that were saved it has at once. A run that continues has the history from
        its checkpoint.

        Args:
            model: model that was trained.
            arguments: arguments of ``model.fit``, by name.
            number: number of the fit in the script, from 0.

        Returns:
            What ``model.fit`` returns.

        Raises:
            InputError: what was saved is of another model.
        """
        run = self._run
        self._remember(model)
        if run.joining is not None:
            self._restore(model, arguments)
            return keras_hooks.history_passed_over(model, run.joining.histories[number])
        assert run.saved is not None, "else no fit is over"
        told = fit_histories.history_in(run.saved, number)
        if told is not None:
            run.replacements.note_history(number, told)
        said = f"fit number {number + 1} was complete before the checkpoint: passed over"
        if not self._restore(model, arguments):
            said += ", with its model as the script makes it until a later fit of it"
        run.say(said)
        return keras_hooks.history_passed_over(model, told)

    def _restore(self, model: Any, arguments: dict[str, Any]) -> bool:
        """Whether *model* is what it was when another was trained; collective, as above."""
        aside, number = self._run.saver.aside, self._number(model)
        saved = None
        if aside is not None:
            saved = aside.read(number) if self._run.joining is not None else aside.saved(number)
        # It is built in any case: one that joins others takes its values from them, in its place.
        if not _is_built(model, arguments) or saved is None:
            return False
        rebuild.replay(model, model_state.weights_of(model), saved.extra)
        model_state.restore(model, saved)
        return True

    def _remember(self, model: Any) -> None:
        self._trained.remember(model, variables=lambda: model_state.variables_of(model))
        self._number(model)

    def _number(self, model: Any) -> int:
        for number, known in enumerate(self._known):
            if known() is model:
                return number
        self._known.append(weakref.ref(model))
        return len(self._known) - 1


def _held(model: Any, number: int) -> checkpoints.Snapshot:
    """The state of *model*, for a file that is named by its *number*."""
    return model_state.hold(
        model,
        {"step": number},
        architecture=model_state.architecture_of(model),
        extra=rebuild.history_of(model, model_state.weights_of(model)),
    ).snapshot()


def _is_built(model: Any, arguments: dict[str, Any]) -> bool:
    """Whether *model* has its variables, which are made of the data where rows are known."""
    batches = rows_of(**{**arguments, "steps_per_epoch": None})
    try:
        if batches is not None:
            keras_hooks.build(model, keras_hooks.as_data(batches.signature))
        elif model.built:
            keras_hooks.build_optimizer(model)
    except NotShareable:
        return False
    return bool(model.built and model.optimizer.built)
