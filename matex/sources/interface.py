"""Source of a training's global batches: one interface for rows and for streams.

A source gives, epoch by epoch, the batches of the whole run. Every rank holds the
same source and takes from each batch the rows that fall to it; a batch stays at
hand until its step is complete, so that a survivor can compute the rows of the dead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from matex import keras_hooks
from matex.data import Batches
from matex.data.prefetch import Prefetch
from matex.errors import InputError
from matex.partition.order import Order, RowOrder
from matex.partition.slot_capacity import SlotCapacity
from matex.partition.spans import Span

__all__ = ["GlobalBatch", "RowSource", "Source"]


class GlobalBatch(Protocol):
    """Samples of one step over all ranks. Local."""

    @property
    def span(self) -> Span:
        """Interval [lo, hi) of the samples in the epoch."""

    @property
    def uneven(self) -> str:
        """Reason for which tensors with different rows cannot be divided; "" if they can."""

    @property
    def capacity(self) -> SlotCapacity:
        """Capacity of slots that its rows need; equal on all ranks."""

    def rows(self, spans: Sequence[Span]) -> Any:
        """The samples of *spans* as tensors, in the form of the source's ``signature``."""

    def fingerprint(self, spans: Sequence[Span]) -> int:
        """Number that adds up over disjoint spans; below 2^24 for the whole batch."""


class Source(Protocol):
    """Global batches in an order that is the same on every rank. Local."""

    signature: Any
    """Structure of ``tf.TensorSpec`` with a free batch dimension."""

    built_on: Any
    """A batch as ``train_step`` gets it, of ``tf.TensorSpec``, for building a model: where every
    batch has as many rows, with their number."""

    samples: int | None
    """Number of samples of an epoch; None if not known beforehand."""

    most_rows: int | None
    """Largest number of rows of a global batch; None if not known beforehand."""

    resources: frozenset[int]
    """Identities of the handles of variables that the pipeline of the data uses."""

    capacity: SlotCapacity | None
    """Capacity of slots that rows need at first; None if batches may need more than they tell."""

    digest: int
    """63 bits that identify the batches so far, or their order; 0 where the cursor does."""

    explanation: str
    """Why a step may turn out to be made of other samples than its own."""

    order: str
    """Word for the order of the samples, as the event of a fit says it."""

    @property
    def num_batches(self) -> int | None:
        """Number of steps of an epoch; None if unknown."""

    @property
    def ran_out(self) -> bool:
        """Whether a batch is wanted that is missing, as the end of the data was unknown.

        The data may also have ended by an error, which :meth:`next` raises.
        """

    @property
    def as_data(self) -> Callable[[Any], Any]:
        """Function from a batch of the form of ``signature`` to the argument of ``train_step``."""

    def reset(self) -> None:
        """Reset the source; Keras calls it before the first epoch."""

    def epoch(self, epoch: int, cursor: int, steps_per_execution: int) -> Iterator[tuple[int, int]]:
        """Begin *epoch* at sample *cursor*; the first and last step of each execution."""

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        """Context of an epoch, which ends when :meth:`next` returns no further batch."""

    def next(self) -> GlobalBatch | None:
        """Next batch of the running execution; None at its end or at the end of the data."""

    def sample(self) -> Any:
        """A row in the form of ``signature``; None if no row is available yet."""

    def after_step(self, step: int) -> tuple[int, int]:
        """Advance after the step of the newest batch, which every member has made.

        Called before anything else between steps.

        Args:
            step: number of the step, the same everywhere.

        Returns:
            The number of messages that this rank handed to MPI for it, and their bytes.
        """

    def report(self) -> dict[str, Any]:
        """Fields of the epoch's event about the rows, as JSON; counts since the last call."""

    def close(self) -> None:
        """Note that the last step was made."""


class _Read(Protocol):
    def __call__(
        self, indices: np.ndarray, *, then: Callable[[], np.ndarray]
    ) -> tuple[Any, ...]: ...


@dataclass(frozen=True)
class _RowBatch:
    _read: _Read
    _order: Order
    span: Span
    uneven: str = ""

    @property
    def capacity(self) -> SlotCapacity:
        return SlotCapacity(self.span[1] - self.span[0])

    def rows(self, spans: Sequence[Span]) -> tuple[Any, ...]:
        return self._read(self._order.indices(spans), then=lambda: self._following(spans))

    def _following(self, spans: Sequence[Span]) -> np.ndarray:
        """Prediction of the next rows without a death: the same share of the next batch.

        One with fewer samples is cut in other places, so of that nothing, or else all.
        """
        (lo, hi), samples = self.span, self._order.samples
        end = min(hi + hi - lo, samples)
        if list(spans) == [self.span]:
            return self._order.indices([(hi, end)])
        if end - hi < hi - lo:
            return self._order.indices([])
        return self._order.indices([(a + hi - lo, b + hi - lo) for a, b in spans])

    def fingerprint(self, spans: Sequence[Span]) -> int:
        return self._order.fingerprint(spans)


class RowSource:
    """Rows known by number: each rank reads only its own, in the order of the epoch.

    Args:
        batch_size: number of rows of a step before *multiplier*; at most all samples.
        row_order: function that gives the order of each epoch, the same on every rank.
        order: name of the order.
        multiplier: function that gives the factor for *batch_size*; called anew for each step, and
            never larger than at the beginning of the epoch. 1 by default.
    """

    explanation = ""

    def __init__(
        self,
        batches: Batches,
        *,
        batch_size: int,
        row_order: RowOrder,
        order: str,
        multiplier: Callable[[], int] = lambda: 1,
    ) -> None:
        self._batches = batches
        self._reader = Prefetch(batches)
        self._script_batch_size = batch_size
        self._multiplier = multiplier
        self._row_order = row_order
        self.order = order
        self.ran_out = False  # its rows are known by number
        self._order: Order | None = None
        self._cursor = 0
        self.signature = batches.signature
        rows = self._script_batch_size * self._multiplier()
        same = None if batches.samples % rows else rows
        self.built_on = self.as_data(keras_hooks.with_rows(self.signature, same))
        self.samples: int | None = batches.samples
        self.most_rows: int | None = self._batch_size
        self.resources: frozenset[int] = frozenset()
        self.capacity: SlotCapacity | None = SlotCapacity(self._batch_size)
        self.digest = 0

    @property
    def _batch_size(self) -> int:
        return min(self._script_batch_size * self._multiplier(), self._batches.samples)

    @property
    def num_batches(self) -> int:
        return -(-self._batches.samples // self._batch_size)

    @staticmethod  # a traced step keeps it, and would keep the data with it
    def as_data(batch: Any) -> Any:
        return keras_hooks.as_data(batch)

    def reset(self) -> None:
        """Do nothing: an epoch begins at the given cursor."""

    def resume(self, cursor: int, digest: int) -> None:
        """Check, before the first epoch, that the order equals that of a checkpoint at *cursor*.

        Raises:
            InputError: on every rank.
        """
        if cursor and digest:
            raise InputError(
                "a checkpoint from inside an epoch is continued on the same kind of data in the "
                f"same order. Received: one of a stream or of --shuffle ring, at sample {cursor}; "
                "give --shuffle ring, or an empty checkpoint directory to start anew"
            )

    def _read(self, indices: np.ndarray, *, then: Callable[[], np.ndarray]) -> tuple[Any, ...]:
        batch: tuple[Any, ...] = self._reader.rows(indices, then=then)
        return batch

    def epoch(self, epoch: int, cursor: int, steps_per_execution: int) -> Iterator[tuple[int, int]]:
        self._order = Order(visits=self._row_order(epoch), batch_size=self._batch_size)
        self._cursor = cursor
        first = self._cursor // self._batch_size
        while self._cursor < self._order.samples:
            # Keras counts whole executions, also where the data end inside the last.
            yield first, first + steps_per_execution - 1
            first += steps_per_execution

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        yield

    def next(self) -> GlobalBatch | None:
        order = self._order
        if order is None or self._cursor >= order.samples:
            return None
        span = order.step(self._cursor, self._batch_size)
        self._cursor = span[1]
        return _RowBatch(self._read, order, span)

    def sample(self) -> Any:
        return self._batches.rows(np.arange(1))

    def after_step(self, step: int) -> tuple[int, int]:
        return 0, 0

    def report(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Stop the thread that reads ahead, if there is one."""
        self._reader.close()
