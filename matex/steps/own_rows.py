"""Rows of the running step that this rank computes, and their control vector."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.exchange import Header
from matex.partition.spans import Span, assigned, samples_of, size, split
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch
from matex.steps.control import Control
from matex.steps.model_step import ModelStep
from matex.steps.services import StepServices

__all__ = ["OwnRows"]


class OwnRows:
    """This rank's part of the running step's batch. Local.

    The header carries ``stop_wanted``, ``found_inseparable``, the requests of *services* and, from
    the leader only, ``rate_factor``. ``speeds``, equal on all ranks, determines the fraction of the
    batch that each rank computes; empty means equal fractions. ``workers`` is the number of virtual
    workers, whose rows are not divided; 0 without virtual workers. ``read`` are the time intervals
    in which rows of the running step were read.

    Args:
        services: ranks and requests of the run.
        model: model whose optimizer has the learning rate.
    """

    def __init__(self, services: StepServices, model: Any) -> None:
        self._services = services
        self._communicator = services.communicator
        self._model = model
        self._batch: GlobalBatch | None = None
        self._whole: tuple[Any, Sequence[float]] | None = None
        self._divided: ModelStep | None = None
        self.stop_wanted = False
        self.rate_factor = 1.0
        self.found_inseparable = False
        self.speeds: Mapping[int, float] = {}
        self.workers = services.virtual_workers
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

    def parts_of_workers(self) -> list[Span]:
        """Rows of each virtual worker in the running step, without workers that have none.

        A batch without rows is one part.
        """
        span = self.running.span
        if span[0] == span[1]:
            return [span]
        return [part for part in split(span, self.workers) if part[0] < part[1]]

    def assigned(self, span: Span, rank: int | None = None) -> list[Span]:
        """Rows of *span* that *rank* computes, given the ranks lost since the last step.

        A batch without rows, which Keras accepts, is assigned to the first living rank.

        Args:
            span: interval of the epoch.
            rank: a living rank; this rank by default.
        """
        pending = self._communicator.pending
        rank = self._communicator.world.rank if rank is None else rank
        if span[0] == span[1]:
            first = next(r for r in pending.expected if r not in pending.lost)
            return [span] if rank == first else []
        return assigned(
            span, pending.expected, pending.lost, rank, self.speeds, workers=self.workers
        )

    def samples_of(self, rank: int, pending: ft.Pending) -> int:
        """Number of samples of the running step assigned to *rank*, even if it has died."""
        span, speeds = self.running.span, self.speeds
        return samples_of(rank, span, pending.expected, pending.lost, speeds, self.workers)

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
        leads = self._communicator.world.is_leader
        header = Header(
            samples=float(count),
            fingerprint=float(batch.fingerprint(spans)) if counts else 0.0,
            ranks=float(speaks),
        )
        if speaks:
            header = header._replace(
                learning_rate=float(leads),
                rate_factor=self.rate_factor if leads else 0.0,
                **self._asked(),
            )
        return Control(
            weight=weight,
            sample_offset=float(spans[0][0] - lo),
            batch_rows=float(hi - lo),
            header=header,
            spans=[(start - lo, end - lo) for start, end in spans],
            denominators=self._denominators(),
        ).array()

    def put_header(self, auxiliary: np.ndarray, header: Header) -> None:
        """Set the header of *auxiliary*, a sum of contributions, to that of one contribution."""
        rate = keras_hooks.learning_rate_variable(self._model.optimizer)
        leads = self._communicator.world.is_leader
        auxiliary[-len(Header._fields) :] = header._replace(
            learning_rate=float(rate.numpy()) if leads and rate is not None else 0.0,
            rate_factor=self.rate_factor if leads else 0.0,
            ranks=1.0,
            **self._asked(),
        )

    def _asked(self) -> dict[str, float]:
        """Header fields by which ranks agree on the actions after the step."""
        requests = self._services.requests()
        leads = self._communicator.world.is_leader
        return {
            "stop": float(self.stop_wanted),
            "inseparable": float(self.found_inseparable),
            "leave": float(requests.leave),
            "save": float(requests.word) if leads else 0.0,
        }
