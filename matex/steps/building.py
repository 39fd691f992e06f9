"""Construction of a model's variables before its first step."""

from __future__ import annotations

import contextlib
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.steps.silence import unheard
from matex.steps.user_code import attempted

__all__ = ["build"]


def build(model: Any, data: Any, *, for_fit: bool = False) -> None:
    """Create all variables of *model*, its metrics and its optimizer from a batch's shapes. Local.

    Args:
        data: specification of the batch that ``train_step`` gets.
        for_fit: whether Keras is about to reset the metrics of a fit; off by default.

    Raises:
        NotShareable: only a custom train step can call the model.
    """

    def step(batch: Any) -> Any:
        return keras_hooks.with_functions_inline(model.train_step, batch)

    def trace(batch: Any) -> None:
        # What a step that cannot be traced lacks is said when it is traced to be made.
        with (
            contextlib.suppress(NotShareable),
            unheard(),
            keras_hooks.generators_kept(),
            keras_hooks.replaced_apply(_change_nothing),
            attempted("train_step cannot be traced"),
        ):
            keras_hooks.graph_of(step, batch).get_concrete_function()

    traced = None if model.run_eagerly else trace
    keras_hooks.build(model, data, for_fit=for_fit, trace=traced)


def _change_nothing(optimizer: Any, gradients: Any, variables: Any) -> None:
    """Stand for an update in a trace that is never run."""
