"""This rank's contribution to a step: the sums over its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matex.exchange import Header, Layout, header_of
from matex.partition.spans import Span
from matex.steps.contribution_header import ContributionHeader
from matex.steps.own_rows import OwnRows
from matex.steps.step import Step

__all__ = ["LocalContribution", "averaged"]


class LocalContribution:
    """This rank's contribution to the running step. Local.

    Args:
        rows: rows of this rank.
        header: header of this rank's contributions.
        step: step that computes them.
    """

    def __init__(self, rows: OwnRows, header: ContributionHeader, step: Step) -> None:
        self._rows = rows
        self._header = header
        self._step = step

    @property
    def layout(self) -> Layout:
        """Layout of the step; with run_eagerly, known after the first contribution."""
        assert self._step.layout is not None
        return self._step.layout

    @property
    def exchanged(self) -> Layout:
        """Layout of the part that the ranks exchange."""
        found = self._step.exchanged
        assert found is not None
        return found

    @property
    def sums_gradients(self) -> bool:
        """Whether the exchange contains the gradients."""
        return self._step.sums_gradients

    def contribution(self, spans: list[Span]) -> list[np.ndarray]:
        """Parts that *spans* add to the step, computed outside the fused graph."""
        if len(spans) > 1 and self._step.has_slots:
            each = [self.contribution([span]) for span in spans]
            parts = [np.add.reduce(pieces) for pieces in zip(*each, strict=True)]
            self._header.put(parts[-1], header_of(parts[-1]))
            return parts
        if spans:
            parts = self._step.contribution(*self._rows.inputs(spans))
            return [np.asarray(part) for part in parts]
        layout = self.layout
        parts = [np.zeros(shape, layout.dtype) for shape in layout.shapes]
        self._header.put(parts[-1], Header())
        return parts

    def idle(self, spans: list[Span]) -> None:
        """Run an eager step on one row, without using the result, if this rank has no rows.

        The step is Python that may count, print or branch: it runs on every rank. And its first run
        determines the layout.
        """
        if self._step.runs_eagerly and not spans:
            lo, hi = self._rows.running.span
            self._step.contribution(*self._rows.inputs([(lo, min(lo + 1, hi))]))

    def sent(self, spans: list[Span]) -> list[np.ndarray]:
        """Parts of the contribution of *spans* that the ranks exchange."""
        if self._step.layout is None:
            self.idle(spans)
        return self.exchanged_of(self.contribution(spans))

    def exchanged_of(self, parts: list[np.ndarray]) -> list[np.ndarray]:
        """Exchanged part of a contribution with all its *parts*."""
        return parts if self._step.sums_gradients else parts[-1:]


def averaged(
    parts: list[np.ndarray], average: Callable[[np.ndarray], np.ndarray]
) -> list[np.ndarray]:
    """Contribution *parts* in which *average* has replaced gradients and number of samples.

    Args:
        average: function of a vector of all gradients and, last, the number of samples.
    """
    *gradients, auxiliary = parts
    samples = Header._fields.index("samples") - len(Header._fields)
    flat = [*(gradient.reshape(-1) for gradient in gradients), auxiliary[samples:][:1]]
    pieces = np.split(average(np.concatenate(flat)), np.cumsum([part.size for part in flat])[:-1])
    auxiliary = auxiliary.copy()
    auxiliary[samples] = pieces[-1][0]
    shaped = [piece.reshape(old.shape) for piece, old in zip(pieces[:-1], gradients, strict=True)]
    return [*shaped, auxiliary]
