"""Keras's own test step, on whole batches from matex's sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks

__all__ = ["whole_test_step"]

Logs = dict[str, Any]


def whole_test_step(
    model: Any, signature: Any, as_data: Callable[[Any], Any]
) -> Callable[[Any], Logs]:
    """The function that makes the test step of *model* on a whole batch. Local.

    Args:
        model: model of the test function.
        signature: signature of batches, with a free first axis.
        as_data: function from such a batch to the argument of ``test_step``.
    """
    original = model.test_function.original

    def whole(batch: Any) -> Logs:
        logs: Logs = original(iter([as_data(batch)]))
        return logs

    if model.run_eagerly:
        return whole
    # Of a batch whose rows are counted when it is traced Keras counts losses otherwise.
    free = keras_hooks.graph_of(
        lambda leaves: whole(keras_hooks.pack_as(signature, leaves)),
        keras_hooks.flatten(signature),
    )
    # Kept as long as Keras's own: its draws continue where the last evaluation ended. The same data
    # may come in another structure, in validation and alone.
    kept = model.test_function.whole.setdefault(repr(as_data(signature)), free)
    return lambda batch: kept(keras_hooks.flatten(batch))
