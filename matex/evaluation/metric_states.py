"""Metric states of a model as one vector, which can be summed over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.evaluation.test_step import TestStep

__all__ = ["MetricStates"]


class MetricStates:
    """Metric states of one pass, and other values that ``test_step`` returns. Local.

    For the latter Keras reports the last batch's values; only the rank with this batch packs them,
    the others pack zeros.

    Args:
        model: model of the metrics.
        step: ``test_step`` of *model*.
    """

    def __init__(self, model: Any, step: TestStep) -> None:
        self._model = model
        self._step = step
        self._extra: np.ndarray | None = None

    def begin_batch(self) -> None:
        """Another batch is the last of the pass now."""
        self._extra = None

    def keep_extra(self) -> None:
        """The batch that was evaluated just now is the last of the pass."""
        self._extra = self._step.extra

    def reset(self) -> None:
        """Forget all batches."""
        self._model.reset_metrics()
        self._extra = None

    def packed(self) -> np.ndarray:
        """Metric states and extra values in one new vector, float64."""
        self._step.ready()
        parts = [v.numpy().astype(np.float64).reshape(-1) for v in self._model.metrics_variables]
        extra = np.zeros_like(self._step.extra) if self._extra is None else self._extra
        return np.concatenate([*parts, extra])

    def take_extra(self, total: np.ndarray) -> np.ndarray:
        """Let the step return the extra of the summed vector; the states, as a vector."""
        states = sum(int(np.prod(v.shape)) for v in self._model.metrics_variables)
        self._step.extra = total[states:]
        return total[:states]

    def assign(self, states: np.ndarray) -> None:
        """Set the metrics to *states*, from :meth:`take_extra`."""
        at = 0
        for variable in self._model.metrics_variables:
            end = at + int(np.prod(variable.shape))
            part = states[at:end].reshape(variable.shape)
            variable.assign(part.astype(variable.numpy().dtype))
            at = end
