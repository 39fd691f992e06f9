"""Rows of the running step that this rank computes, and their control vector."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.partition.spans import Span, size
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch
from matex.steps.contribution_header import ContributionHeader
from matex.steps.control import Control
from matex.steps.model_step import ModelStep

__all__ = ["OwnRows"]


class OwnRows:
    """Reads rows of the running step's batch, and describes them to the step's graph. Local.

    ``read`` are the time intervals in which rows of the running step were read.

    Args:
        header: header of this rank's contributions.
    """

    def __init__(self, header: ContributionHeader) -> None:
        self._header = header
        self._batch: GlobalBatch | None = None
        self._whole: tuple[Any, Sequence[float]] | None = None
        self._divided: ModelStep | None = None
        self.read: list[Interval] = []

    @property
    def running(self) -> GlobalBatch:
        """Batch of the running step."""
        assert self._batch is not None
        return self._batch

    @running.setter
    def running(self, batch: GlobalBatch) -> None:
        self._batch, self._whole, self.read = batch, None, []

    def use(self, step: ModelStep) -> None:
        """Compute rows with *step* from now on."""
        self._divided, self._whole = step, None

    def inputs(self, spans: list[Span]) -> tuple[Any, np.ndarray]:
        """Rows of *spans*, and the control vector of their contribution."""
        return self.rows(spans), self.control(spans)

    def rows(self, spans: list[Span]) -> Any:
        """Rows of *spans*, cut from the whole batch if that has been read."""
        self._denominators()
        if self._whole is None:
            return self._read(spans)
        start = self.running.span[0]

        def cut(tensor: Any) -> Any:
            pieces = [keras_hooks.cut_rows(tensor, lo - start, hi - start) for lo, hi in spans]
            return pieces[0] if len(pieces) == 1 else keras_hooks.joined(pieces)

        return keras_hooks.map_structure(cut, self._whole[0])

    def _read(self, spans: list[Span]) -> Any:
        began = time.perf_counter()
        rows = self.running.rows(spans)
        self.read.append(Interval(began, time.perf_counter()))
        return rows

    def _denominators(self) -> Sequence[float]:
        """Denominators of the running batch; the whole batch is read for them, once."""
        if self._divided is None or self._divided.divides_by_rows:
            return ()
        if self._whole is None:
            rows = self._read([self.running.span])
            self._whole = rows, self._divided.denominators(rows)
        return self._whole[1]

    def control(
        self,
        spans: list[Span],
        *,
        counts: bool = True,
        speaks: bool = True,
        samples: int | None = None,
    ) -> np.ndarray:
        """Control vector of the contribution of *spans*: :class:`Control` as an array.

        Args:
            spans: rows to compute.
            counts: whether the rows are this rank's own, or only borrowed. True by default.
            speaks: whether it is this rank's only contribution or its first, whose header also
                holds the fields that are not about samples. True by default.
            samples: number of the batch's samples of which the step is made; all by default.
        """
        batch = self.running
        lo, hi = batch.span
        count = size(spans) if counts else 0
        weight = count / (hi - lo) if count else 1.0
        if samples is not None:
            weight *= (hi - lo) / max(1, samples)
        header = self._header.of(
            samples=count, fingerprint=batch.fingerprint(spans) if counts else 0, speaks=speaks
        )
        return Control(
            weight=weight,
            sample_offset=float(spans[0][0] - lo),
            batch_rows=float(hi - lo),
            header=header,
            spans=[(start - lo, end - lo) for start, end in spans],
            denominators=self._denominators(),
        ).array()
