"""The part of a step that is neither gradient nor update: metrics, statistics, logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.exchange.layout import Segment
from matex.steps.forward_state import ForwardState

__all__ = ["StepTail", "flat"]


class StepTail:
    """The logs and changing variables of a step: this rank's part, and the sum of all. Local.

    Args:
        state: variables that the forward pass changes.
    """

    def __init__(self, state: ForwardState) -> None:
        self._state = state
        self._log_names: list[str] = []
        self._extra_names: list[str] = []
        self._sources: dict[str, tuple[Any, str | None]] = {}

    def note(self, logs: Mapping[str, Any], results: keras_hooks.Results) -> list[Any]:
        """Note where the *logs* of a traced step come from.

        Returns:
            Scalars that a custom train step returns beside results: averaged like the loss.
        """
        logs = keras_hooks.flat_logs(logs)
        sources = {name: results.source_of(value) for name, value in logs.items()}
        self._log_names = list(logs)
        self._sources = {name: source for name, source in sources.items() if source is not None}
        extra = {name: value for name, value in logs.items() if name not in self._sources}
        self._extra_names = list(extra)
        return list(extra.values())

    def segments(self) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """The layout's *means* and *sums*."""
        means, sums = self._state.segments()
        return (*means, *(Segment(f"value of {n}", (), "float32") for n in self._extra_names)), sums

    def commit(self, means: list[Any], sums: list[Any]) -> dict[str, Any]:
        """Apply the exchanged means and sums, given flat; the step's logs."""
        means = list(means)
        extra = [means.pop() for _ in self._extra_names][::-1]
        self._state.add(means, sums)
        logs = {name: keras_hooks.Results.now(source) for name, source in self._sources.items()}
        logs.update((n, tf.reshape(e, ())) for n, e in zip(self._extra_names, extra, strict=True))
        return {name: logs[name] for name in self._log_names}


def flat(tensor: Any, dtype: Any) -> Any:
    """*tensor* as a vector of *dtype*."""
    return tf.reshape(tf.cast(tensor, dtype), [-1])
