"""End of data of unknown length, where plain Keras runs a step without a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from matex import keras_hooks
from matex.sources.interface import Source
from matex.steps.graphs.subgraph import changes_without
from matex.steps.script_code.muted_output import unheard

__all__ = ["EndOfData", "ends_by_step"]


def ends_by_step(model: Any) -> bool:
    """Whether plain Keras detects the end of data by a step of *model*. Local."""
    return not (model.run_eagerly or model.jit_compile or model.steps_per_execution > 1)


class EndOfData:
    """Makes the changes that plain Keras's step without a batch makes. Local, alike on all ranks.

    Keras learns of the end of data from the graph of its train function, which fetches the next
    batch itself, except eagerly, by XLA, or with several steps per execution. Until the fetch fails
    TensorFlow runs the operations that need no batch: it increments ``optimizer.iterations``,
    decays weights, and draws the next seed of each dropout, which later epochs depend on. With
    batches of a fixed size metrics also count the rows.

    Args:
        model: model being trained or evaluated.
        source: source of its batches.
        step: ``train_step`` of *model*, or its ``test_step``.
        as_noted: function that returns a context, in which a trace reads the Python that the graphs
            of *step* have read.
    """

    def __init__(
        self,
        model: Any,
        source: Source,
        step: Callable[[Any], Any],
        as_noted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._model = model
        self._source = source
        self._step = step
        self._as_noted = as_noted
        self._changes: Callable[[], None] | None = None

    def passed(self) -> None:
        """Make the changes of a step without a batch, once, at the end of data."""
        if not ends_by_step(self._model):
            return
        if self._changes is None:
            self._changes = self._traced()
        self._changes()

    def drop_trace(self) -> None:
        """Trace anew at the next end of data."""
        self._changes = None

    def _traced(self) -> Callable[[], None]:
        step, as_data = self._step, self._source.as_data

        def whole(*leaves: Any) -> None:
            with keras_hooks.updating():
                keras_hooks.with_functions_inline(step, as_data(leaves))

        leaves = [leaf for leaf in keras_hooks.flatten(self._source.built_on) if leaf is not None]
        with keras_hooks.generators_kept(), unheard(), self._as_noted():
            return changes_without(keras_hooks.graph_of(whole, *leaves).get_concrete_function())
