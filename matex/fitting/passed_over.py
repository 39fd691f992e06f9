"""A fit of the script that is not made here, because it was made before. Local."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.trained_models import TrainedModels
from matex.run.context import RunContext

__all__ = ["passed_over"]


def passed_over(run: RunContext, model: Any, trained: TrainedModels, *, number: int) -> Any:
    """History of a fit that is passed over.

    A process that joins others knows the history that they had, and gets the model's weights with
    all else when it is admitted; a run that continues from a checkpoint has an empty one.

    Args:
        run: run that the fit is part of.
        model: model that was trained.
        trained: models that the script has trained so far, to which a process that joins adds it.
        number: number of the fit in the script, from 0.

    Returns:
        What ``model.fit`` returns.
    """
    if run.joining is None:
        return keras_hooks.history_passed_over(model)
    trained.remember(model, variables=lambda: model_state.variables_of(model))
    return keras_hooks.history_passed_over(model, run.joining.histories[number])
