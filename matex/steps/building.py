"""Construction of a model's variables before its first step."""

from __future__ import annotations

import contextlib
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.keras_hooks.building import free_of_rows
from matex.keras_hooks.functions import variables_with_values
from matex.keras_hooks.rows import zeros_as
from matex.keras_hooks.unbuilt_metrics import until_metrics_are_made
from matex.steps.script_code.dry_run import DryRun
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted

__all__ = ["build"]

_ROWS = 2


def build(model: Any, data: Any, *, for_fit: bool = False) -> None:
    """Create all variables of *model*, its metrics and its optimizer from a batch's shapes. Local.

    Args:
        data: specification of the batch that ``train_step`` gets.
        for_fit: whether Keras is about to reset the metrics of a fit; off by default.

    Raises:
        NotShareable: only a custom train step can call the model, or choose its metrics.
        LateVariable: its first step makes a variable of another one's value.
    """
    given: dict[int, tuple[Any, list[Any]]] = {}

    def note(optimizer: Any, gradients: Any, variables: Any) -> None:
        """Stand for an update in a step that none follows."""
        if variables is not None:
            given.setdefault(id(optimizer), (optimizer, list(variables)))

    def follow() -> list[tuple[Any, list[Any]]]:
        fails = "fails on rows of zeros" if model.run_eagerly else "cannot be traced"
        with (
            unheard(),
            keras_hooks.generators_kept(),
            keras_hooks.replaced_apply(note),
            attempted(f"train_step {fails}"),
        ):
            (_run if model.run_eagerly else _trace)(model, data)
        return [*given.values()]

    if not model.run_eagerly:
        keras_hooks.build(model, data, for_fit=for_fit, follow=follow)
        return
    with contextlib.suppress(NotShareable), attempted("call fails on rows of zeros"), unheard():
        _call(model, data)
    kept = DryRun(model).building
    keras_hooks.build(model, data, for_fit=for_fit, follow=follow, within=kept)


def _call(model: Any, data: Any) -> None:
    """Build the layers of *model* in a call, as the first eager step does.

    A ``build`` of the script's own may give variables their values, which a symbolic call would
    lose. Nothing that ``call`` changes stays changed.
    """
    if all(layer.built for layer in keras_hooks.flat_layers(model)):
        return
    rows = keras_hooks.map_structure(lambda spec: zeros_as(spec, _ROWS), data)
    with DryRun(model).building(), free_of_rows():
        model(keras_hooks.inputs_of(rows), training=True)


def _trace(model: Any, data: Any) -> None:
    """Trace ``train_step`` of *model* on batches as *data* say."""

    def call(*leaves: Any) -> Any:
        given = iter(leaves)
        batch = keras_hooks.map_structure(lambda leaf: None if leaf is None else next(given), data)
        with variables_with_values():
            return keras_hooks.with_functions_inline(model.train_step, batch)

    signature = [leaf for leaf in keras_hooks.flatten(data) if leaf is not None]
    keras_hooks.graph_of(call, *signature).get_concrete_function()


def _run(model: Any, data: Any) -> None:
    """Run ``train_step`` of *model* on rows of zeros until it has made the metrics.

    Its Python may keep what it computes, and tensors of a trace would be of no use to it later.
    """
    rows = keras_hooks.map_structure(lambda spec: zeros_as(spec, _ROWS), data)
    with DryRun(model).run(), until_metrics_are_made(model):
        model.train_step(rows)
