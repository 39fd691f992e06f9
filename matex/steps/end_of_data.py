"""The end of data of unknown length, where plain Keras makes a step without a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.sources.interface import Source
from matex.steps.silence import unheard
from matex.steps.subgraph import changes_without

__all__ = ["EndOfData", "ends_by_step"]


def ends_by_step(model: Any) -> bool:
    """Whether plain Keras makes a step of *model* to find that data have ended. Local."""
    return not (model.run_eagerly or model.jit_compile or model.steps_per_execution > 1)


class EndOfData:
    """Makes what plain Keras makes of a step that finds no batch. Local, and alike on all ranks.

    Keras learns that data have ended from the graph of its train function, which asks for the next
    batch itself, unless it runs eagerly, by XLA, or several steps at once. Until that fails
    TensorFlow runs what needs none: it counts one more of ``optimizer.iterations``, decays weights,
    and draws the next seed of each dropout, by which later epochs go. Where batches have a fixed
    size metrics count its rows, too.

    Args:
        model: model that is trained or evaluated.
        source: source of its batches.
        step: ``train_step`` of *model*, or its ``test_step``.
    """

    def __init__(self, model: Any, source: Source, step: Callable[[Any], Any]) -> None:
        self._model = model
        self._source = source
        self._step = step
        self._changes: Callable[[], None] | None = None

    def passed(self) -> None:
        """Change what a step without a batch changes, once where data have ended."""
        if not ends_by_step(self._model):
            return
        if self._changes is None:
            self._changes = self._traced()
        self._changes()

    def shapes_changed(self) -> None:
        """Trace anew, because the model's shapes have changed."""
        self._changes = None

    def _traced(self) -> Callable[[], None]:
        step, as_data = self._step, self._source.as_data

        def whole(*leaves: Any) -> None:
            with keras_hooks.updating():
                keras_hooks.with_functions_inline(step, as_data(leaves))

        leaves = [leaf for leaf in keras_hooks.flatten(self._source.built_on) if leaf is not None]
        with keras_hooks.generators_kept(), unheard():
            return changes_without(keras_hooks.graph_of(whole, *leaves).get_concrete_function())
