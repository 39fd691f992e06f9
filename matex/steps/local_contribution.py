"""This rank's contribution to a step: the rows assigned to it, and their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.exchange import Header, Layout, header_of
from matex.partition.spans import Span, assigned
from matex.sources.interface import GlobalBatch
from matex.steps.services import StepServices
from matex.steps.step import Control, Step

__all__ = ["LocalContribution"]


class LocalContribution:
    """This rank's part of the running step's batch. Local.

    The header carries ``stop_wanted``, the requests of
    *services* and, from the leader only, ``rate_factor``. ``speeds``, equal on all ranks, sets the
    fraction of the batch that each of them computes; empty means equal fractions.
    """

    def __init__(self, services: StepServices, model: Any, step: Step) -> None:
        self._services = services
        self._communicator = services.communicator
        self._model = model
        self._step = step
        self._batch: GlobalBatch | None = None
        self._whole: tuple[Any, Sequence[float]] | None = None
        self.stop_wanted = False
        self.rate_factor = 1.0
        self.speeds: Mapping[int, float] = {}

    def use(self, step: Step) -> None:
        """Take *step* for the one before, because the model's shapes have changed."""
        self._step = step

    @property
    def running(self) -> GlobalBatch:
        """The batch of the running step."""
        assert self._batch is not None
        return self._batch

    @running.setter
    def running(self, batch: GlobalBatch) -> None:
        self._batch, self._whole = batch, None

    @property
    def layout(self) -> Layout:
        """The layout of the step; with run_eagerly, known after the first contribution."""
        assert self._step.layout is not None
        return self._step.layout

    @property
    def exchanged(self) -> Layout:
        """The layout of the part that the ranks exchange."""
        found = self._step.exchanged
        assert found is not None
        return found

    def assigned(self, span: Span) -> list[Span]:
        """Rows of *span* that this rank computes, given who was lost since the last step.

        A batch without rows, which Keras takes like any other, is the first living rank's.
        """
        pending = self._communicator.pending
        rank = self._communicator.world.rank
        if span[0] == span[1]:
            first = next(r for r in pending.expected if r not in pending.lost)
            return [span] if rank == first else []
        return assigned(span, pending.expected, pending.lost, rank, self.speeds)

    def inputs(self, spans: list[Span]) -> tuple[Any, np.ndarray]:
        """The rows of *spans*, and the control vector for their contribution."""
        batch = self.running
        lo, hi = batch.span
        count = sum(end - start for start, end in spans)
        leads = self._communicator.world.is_leader
        header = Header(
            samples=float(count),
            fingerprint=float(batch.fingerprint(spans)),
            learning_rate=float(leads),
            rate_factor=self.rate_factor if leads else 0.0,
            **self._asked(),
        )
        weight = count / (hi - lo) if count else 1.0
        control = Control(
            weight=weight,
            sample_offset=float(spans[0][0] - lo),
            header=header,
            denominators=self._denominators(),
        )
        return self._rows(spans), control.array()

    def _denominators(self) -> Sequence[float]:
        """Denominators of the running batch, which is read as a whole for them, once."""
        if self._whole is None and self._step.divides_by_rows:
            return ()
        if self._whole is None:
            rows = self.running.rows([self.running.span])
            self._whole = rows, self._step.denominators(rows)
        return self._whole[1]

    def _rows(self, spans: list[Span]) -> Any:
        """The rows of *spans*, cut out of the whole batch where that has been read."""
        if self._whole is None:
            return self.running.rows(spans)
        start = self.running.span[0]

        def cut(tensor: Any) -> Any:
            pieces = [tensor[lo - start : hi - start] for lo, hi in spans]
            return pieces[0] if len(pieces) == 1 else keras_hooks.joined(pieces)

        return keras_hooks.map_structure(cut, self._whole[0])

    def _asked(self) -> dict[str, float]:
        """The fields of the header by which ranks agree on what comes after the step."""
        requests = self._services.requests()
        leads = self._communicator.world.is_leader
        return {
            "stop": float(self.stop_wanted),
            "leave": float(requests.leave),
            "save": float(requests.save) if leads else 0.0,
        }

    def contribution(self, spans: list[Span]) -> list[np.ndarray]:
        """The parts that *spans* add to the step, computed outside the fused graph."""
        if len(spans) > 1 and self._step.embedding_rows.used:
            each = [self.contribution([span]) for span in spans]
            parts = [np.add.reduce(pieces) for pieces in zip(*each, strict=True)]
            self.put_header(parts[-1], header_of(parts[-1]))
            return parts
        if spans:
            parts = self._step.contribution(*self.inputs(spans))
            return [np.asarray(part) for part in parts]
        layout = self.layout
        parts = [np.zeros(shape, layout.dtype) for shape in layout.shapes]
        self.put_header(parts[-1], Header())
        return parts

    def idle(self, spans: list[Span]) -> None:
        """Let a step that runs eagerly run in vain, on one row, where no row falls to this rank.

        It is Python that may count, print or branch: that is the same on every rank. And its
        first run tells the layout.
        """
        if self._step.runs_eagerly and not spans:
            lo, hi = self.running.span
            self._step.contribution(*self.inputs([(lo, min(lo + 1, hi))]))

    def sent(self, spans: list[Span]) -> list[np.ndarray]:
        """The parts of the contribution of *spans* that the ranks exchange."""
        if self._step.layout is None:
            self.idle(spans)
        parts = self.contribution(spans)
        return parts if self._step.sums_gradients else parts[-1:]

    @property
    def sums_gradients(self) -> bool:
        """Whether gradients are among what is exchanged."""
        return self._step.sums_gradients

    def put_header(self, tail: np.ndarray, header: Header) -> None:
        """Make *tail* one contribution of this rank, whatever it was added up from."""
        rate = keras_hooks.learning_rate_variable(self._model.optimizer)
        leads = self._communicator.world.is_leader
        tail[-len(Header._fields) :] = header._replace(
            learning_rate=float(rate.numpy()) if leads and rate is not None else 0.0,
            rate_factor=self.rate_factor if leads else 0.0,
            one=1.0,
            **self._asked(),
        )
