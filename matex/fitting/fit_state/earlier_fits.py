"""Fits before the running one: they are passed over, and their models restored."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.apoptosis.cut.saved_widths import cut_as_saved
from matex.checkpointing import model_state
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.errors import NotShareable
from matex.fitting.fit_state import fit_histories
from matex.fitting.fit_state.callback_memory import callbacks_held, restore_callbacks
from matex.fitting.trained_models import TrainedModels
from matex.keras_hooks.callback_state.own_state import fit_begins
from matex.run.context import RunContext
from matex.sources.select import rows_of
from matex.steps.building import build

__all__ = ["EarlierFits"]


class EarlierFits:
    """Results of earlier fits, for a run that continues in a later one.

    A checkpoint holds the model of its own fit. When another fit begins, the model of the last fit
    and its callbacks are saved beside the checkpoints as they were at that fit's end, and a run or
    newcomer that passes over that fit restores them. So the script's code between fits (evaluate,
    save, set weights, compile with another optimizer) runs again with the models of then.

    Args:
        run: run of the fits.
        trained: models that the script has trained so far.
    """

    def __init__(self, run: RunContext, trained: TrainedModels) -> None:
        self._run = run
        self._trained = trained
        # Models in the order of their first fits, and the numbers of the fits of each.
        self._known: list[tuple[weakref.ref[Any], list[int]]] = []
        self._ended: tuple[int, list[int], DeferredSnapshot] | None = None

    def begin(self, model: Any, number: int) -> None:
        """Note that fit *number*, of *model*, begins; collective."""
        ended, self._ended = self._ended, None
        self._remember(model, number)
        store, world = self._run.saver.earlier_fits, self._run.communicator.world
        if store is not None and ended is not None and not world.awaits_admission:
            fit, before, held = ended
            store.save(fit, held.snapshot, before=before)

    def end(self, model: Any, arguments: dict[str, Any], number: int) -> None:
        """Note that fit *number*, of *model*, has ended; local.

        Its end is held by reference, which costs nothing while the model is not changed: the last
        fit of a script is never saved.

        Args:
            arguments: arguments of ``model.fit``, by name.
        """
        if self._run.communicator.world.awaits_admission:  # too late: others have made the fit
            self._restore(model, arguments, number)
        elif self._run.saver.earlier_fits is not None:
            before = [fit for fit in self._fits_of(model) if fit < number]
            self._ended = number, before, _held(model, arguments, number)

    def passed_over(
        self,
        model: Any,
        arguments: dict[str, Any],
        *,
        number: int,
        read: Callable[[int], None],
    ) -> Any:
        """Pass over a fit that was made before; collective, except on a newcomer.

        A newcomer knows the other ranks' history. A run that continues has it from its checkpoint.

        Args:
            model: model that was trained.
            arguments: arguments of ``model.fit``, by name.
            number: number of the fit in the script, from 0.
            read: function that reads the data of a number of epochs, if a later fit may depend on
                how far they were read.

        Returns:
            Result of ``model.fit``.

        Raises:
            InputError: the saved state belongs to another model.
        """
        run = self._run
        self._remember(model, number)
        if run.elastic.joining is not None:
            had = run.elastic.joining.histories[number]
            read(len(had["epoch"]))
            self._restore(model, arguments, number)
            return keras_hooks.history_passed_over(model, had)
        assert run.checkpoints.saved is not None, "else no fit is over"
        told = fit_histories.history_in(run.checkpoints.saved, number)
        if told is not None:
            run.elastic.waiting_newcomers.note_history(number, told)
            read(len(told["epoch"]))
        said = f"fit number {number + 1} was complete before the checkpoint: passed over"
        run.terminal.say(said + self._restore(model, arguments, number))
        return keras_hooks.history_passed_over(model, told)

    def _restore(self, model: Any, arguments: dict[str, Any], number: int) -> str:
        """Restore *model* and callbacks as fit *number* left them; collective, but on a newcomer.

        Returns:
            End of the line about the fit, on missing parts; empty if none are missing.
        """
        store, saved = self._run.saver.earlier_fits, None
        if store is not None:
            saved = (
                store.read(number) if self._run.elastic.joining is not None else store.saved(number)
            )
        callbacks, begun = keras_hooks.listed(arguments["callbacks"]), ""
        if saved is not None:
            fit_begins(callbacks)
            goes_on = self._run.elastic.joining is None
            if anew := restore_callbacks(callbacks, saved.extra, as_scripted=goes_on):
                begun = f"; of its callbacks these begin anew: {'; '.join(anew)}"
        # The model is built in any case: a newcomer gets values from other ranks, in order.
        is_built = _is_built(model, arguments)
        if saved is None or not (
            is_built or len(model_state.weights_of(model)) == len(saved.weights)
        ):
            return f", with its model as the script makes it until a later fit of it{begun}"
        cut_as_saved(model, saved)
        # An optimizer that only a step uses has no slots where that step could not be traced.
        is_whole = len(model_state.slots_of(model)) == len(saved.optimizer)
        model_state.restore(model, saved, optimizer=is_whole)
        return begun if is_whole else f", with its optimizers as the script makes them{begun}"

    def _remember(self, model: Any, number: int) -> None:
        self._trained.remember(model, variables=lambda: model_state.variables_of(model))
        self._fits_of(model).append(number)

    def _fits_of(self, model: Any) -> list[int]:
        for known, fits in self._known:
            if known() is model:
                return fits
        self._known.append((weakref.ref(model), []))
        return self._known[-1][1]


def _held(model: Any, arguments: dict[str, Any], number: int) -> DeferredSnapshot:
    """State of *model* and callbacks at the end of fit *number*, for the file of that fit."""
    return model_state.hold(
        model,
        {"step": number, "fit": number},
        architecture=model_state.architecture_of(model),
        extra={
            **rebuild.history_of(model, model_state.weights_of(model)),
            **callbacks_held(keras_hooks.listed(arguments["callbacks"])),
        },
    )


def _is_built(model: Any, arguments: dict[str, Any]) -> bool:
    """Whether *model* has its variables, which are built from the data if rows are known."""
    batches = rows_of(**{**arguments, "steps_per_epoch": None})
    try:
        if batches is not None:
            build(model, keras_hooks.as_data(batches.signature))
        elif model.built:
            keras_hooks.build_optimizer(model)
    except NotShareable:
        return False
    return bool(model.built and model.optimizer.built)
