"""What this rank contributes to a step: which rows, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import ft
from matex import keras_hooks
from matex.exchange import Header, Layout, header_of
from matex.partition.spans import Span, assigned
from matex.sources.interface import GlobalBatch
from matex.steps.step import Control, Step

__all__ = ["LocalContribution", "StepRequests"]


class StepRequests(NamedTuple):
    """What a rank asks for with a step; what is done is what the sum of all says."""

    leave: bool = False
    """Whether to save and to leave after the step."""
    save: int = 0
    """Which tiers to save after it, bits; only the leader's word counts."""


class LocalContribution:
    """This rank's part of the running step's batch. Local.

    ``batch`` is that of the running step; ``stop_wanted``, from the leader ``rate_factor``,
    and what *wishes* says travel in the header. By ``speeds``, the same on all ranks, they
    share a batch out; alike where it is empty.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        model: Any,
        step: Step,
        wishes: Callable[[], StepRequests] = StepRequests,
    ) -> None:
        self._communicator = communicator
        self._model = model
        self._step = step
        self._wishes = wishes
        self.batch: GlobalBatch | None = None
        self.stop_wanted = False
        self.rate_factor = 1.0
        self.speeds: Mapping[int, float] = {}

    @property
    def current(self) -> GlobalBatch:
        """The batch of the running step."""
        assert self.batch is not None
        return self.batch

    @property
    def layout(self) -> Layout:
        """The layout of the step; with run_eagerly, known after the first contribution."""
        assert self._step.layout is not None
        return self._step.layout

    @property
    def exchanged(self) -> Layout:
        """What of it the ranks exchange."""
        found = self._step.exchanged
        assert found is not None
        return found

    def assigned(self, span: Span) -> list[Span]:
        """What falls to this rank of *span*, given who was lost since the last step.

        A batch without rows, which Keras takes like any other, is the first living rank's.
        """
        pending = self._communicator.pending
        rank = self._communicator.world.rank
        if span[0] == span[1]:
            first = next(r for r in pending.expected if r not in pending.lost)
            return [span] if rank == first else []
        return assigned(span, pending.expected, pending.lost, rank, self.speeds)

    def inputs(self, spans: list[Span]) -> tuple[Any, np.ndarray]:
        """The rows of *spans* and what their contribution is told."""
        batch = self.current
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
        control = Control(weight=weight, salt=float(spans[0][0] - lo), header=header)
        return batch.rows(spans), control.array()

    def _asked(self) -> dict[str, float]:
        """The fields of the header by which ranks agree on what comes after the step."""
        wishes = self._wishes()
        leads = self._communicator.world.is_leader
        return {
            "stop": float(self.stop_wanted),
            "leave": float(wishes.leave),
            "save": float(wishes.save) if leads else 0.0,
        }

    def contribution(self, spans: list[Span]) -> list[np.ndarray]:
        """The parts that *spans* add to the step, computed outside the fused graph."""
        if len(spans) > 1 and self._step.slots.used:
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
            lo, hi = self.current.span
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
