"""Held-out loss, and an upper bound of the number of changed predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.forward import Forward
from matex.apoptosis.peers import Peers
from matex.apoptosis.samples import Sample
from matex.partition.spans import Span

__all__ = ["HeldOutLoss"]


class HeldOutLoss:
    """Held-out loss of a model, evaluated by *forward* on *sample*, whose ``rows`` the peers share.

    The bound: an argmax over outputs cannot change where the largest exceeds the next by
    more than sqrt(2) times the norm of the change of the outputs.
    """

    def __init__(self, sample: Sample, forward: Forward) -> None:
        self._forward = forward
        self._sample = sample
        self.rows = sample.size
        self._spans: list[Span] = []
        self._newest: list[Any] = []
        self._before: tuple[list[Span], list[Any]] = ([], [])
        self._after = self._before

    def loss(self, peers: Peers) -> float:
        """Mean loss without regularisation; collective, equal on all peers."""
        self._spans, self._newest = [], []

        def add(spans: list[Span], total: np.ndarray) -> None:
            for batch in self._sample.batches(spans):
                outputs, mean = self._forward(batch)
                self._newest.append(_as_classes(self._forward.model, outputs))
                if mean is not None:
                    rows = len(keras_hooks.flatten(batch[0])[0])
                    total += mean * rows, rows
            self._spans += spans

        total, weight = peers.total(self._sample.size, 2, add)
        return peers.leaders_value(float(total / max(weight, 1e-300)))

    @property
    def has_loss(self) -> bool:
        """Whether the model has a loss of the rows; without one it is judged by nothing."""
        return all(self._forward.has_loss(batch) for batch in self._sample.batches([(0, 1)]))

    def forget(self) -> None:
        """Drop the traced functions, because more than weights has changed; local."""
        self._forward.forget()

    def begin(self) -> None:
        """Compare with the outputs of the last evaluation from now on; local."""
        self._before = self._after = self._spans, self._newest

    def accept(self) -> None:
        """Take the outputs of the last evaluation as those of the kept model; local."""
        self._after = self._spans, self._newest

    def at_risk(self, peers: Peers) -> float | None:
        """Fraction of rows whose prediction may have changed since :meth:`begin`; collective.

        None where the model has no single output of classes, or where a rank died since.
        """

        def add(spans: list[Span], total: np.ndarray) -> None:
            (rows, old), (same, new) = self._before, self._after
            if rows != same or spans != rows or any(y is None for y in (*old, *new)):
                total += (np.nan, 1.0)
            else:
                unsure = sum(_unsure(a, b) for a, b in zip(old, new, strict=True))
                total += (unsure, sum(len(y) for y in new))

        unsure, rows = peers.total(self._sample.size, 2, add)
        return None if np.isnan(unsure) else float(unsure / max(rows, 1.0))


def _as_classes(model: Any, outputs: Any) -> np.ndarray | None:
    """Outputs if they are those of one classification; else None."""
    if isinstance(outputs, dict | list | tuple) or len(outputs.shape) != 2:
        return None
    return np.asarray(outputs) if _classifies(model) else None


def _classifies(model: Any) -> bool:
    loss = model.loss if model.compiled else None
    name = getattr(loss, "name", getattr(loss, "__name__", str(loss)))
    return "crossentropy" in name


def _unsure(before: np.ndarray, after: np.ndarray) -> int:
    """Number of rows whose prediction may have changed with the outputs."""
    change = np.linalg.norm(after.astype(np.float64) - before, axis=1)
    if before.shape[1] == 1:
        edge = 0.5 if before.min(initial=0) >= 0 and before.max(initial=0) <= 1 else 0.0
        return int(np.count_nonzero(np.abs(before[:, 0] - edge) <= change))
    ordered = np.sort(before.astype(np.float64), 1)
    return int(np.count_nonzero(ordered[:, -1] - ordered[:, -2] <= np.sqrt(2) * change))
