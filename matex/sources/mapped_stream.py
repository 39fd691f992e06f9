"""Stream of raw batches, of which each rank maps its own rows ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ft
from matex.keras_hooks.tensors import whole_numbers
from matex.partition.slot_capacity import SlotCapacity
from matex.partition.spans import Span
from matex.sources.stream import Stream, rows_in
from matex.sources.stream_batch import StreamBatch
from matex.sources.tfdata_reorder import Pipeline

__all__ = ["ComparedStream", "MappedStream", "place_variable"]

_WHOLE = [0, 1]  # the place of a rank that maps all rows


class _RawBatch(StreamBatch):
    """A raw batch; its rows are mapped when they are read, unless mapped ahead of time."""

    def __init__(
        self,
        raw: Sequence[Any],
        span: Span,
        digest: int,
        last: bool,
        ready: Any,
        pipeline: Pipeline,
    ) -> None:
        super().__init__(raw, span, digest, last)
        self._mapped, self._place = ready
        self._pipeline = pipeline

    @property
    def capacity(self) -> SlotCapacity:
        """Capacity of slots that its rows need; no rank knows the lengths of all mapped rows."""
        return super().capacity._replace(values=())

    def rows(self, spans: Sequence[Span]) -> tuple[Any, ...]:
        start = self.span[0]
        if [(lo - start, hi - start) for lo, hi in spans] == [tuple(self._place.numpy())]:
            return tuple(self._mapped)
        return self._pipeline.map(super().rows(spans))


class MappedStream(Stream):
    """Stream whose digests are of the raw batches, which all ranks have. Local.

    While it is compared with a checkpoint of mapped batches, every rank maps whole batches.

    Args:
        feed: Keras's epoch iterator over ``pipeline.ahead(place)``.
        place: place of this rank, and the number of ranks, that map ahead; it follows the members.
    """

    is_raw = True

    def __init__(
        self,
        feed: Any,
        pipeline: Pipeline,
        place: Any,
        communicator: ft.Communicator,
        *,
        most_rows: int | None = None,
    ) -> None:
        super().__init__(feed, pipeline.element_spec, most_rows=most_rows)
        self.capacity = SlotCapacity(most_rows or 1)
        self._pipeline = pipeline
        self._place = place
        self._communicator = communicator
        self._placed: list[int] = []

    def next(self) -> StreamBatch | None:
        # Not when a peer is lost: that may be found out inside an operation of TensorFlow.
        place = _WHOLE if self._compares_other else _place(self._communicator)
        if place != self._placed:
            self._placed = place
            self._place.assign(place)
        return super().next()

    def _fetched(self, batch: Any) -> tuple[list[Any], Any]:
        raw, mapped, place = batch
        return list(raw), (mapped, place)

    def _cut(self, tensors: list[Any], extra: Any, span: Span, last: bool) -> StreamBatch:
        return _RawBatch(tensors, span, self.digest, last, extra, self._pipeline)

    def _other(self, tensors: list[Any], extra: Any) -> Sequence[Any]:
        mapped, rows = extra
        has_all = rows.numpy().tolist() == [0, rows_in(tensors)]
        return mapped if has_all else self._pipeline.map(tensors)


class ComparedStream(Stream):
    """Stream of mapped batches that can be compared with a checkpoint of raw ones. Local.

    It serves a single rank, which otherwise leaves the script's pipeline as it is.

    Args:
        feed: Keras's epoch iterator over ``pipeline.ahead(place)``, where *place* is of one rank.
    """

    def _fetched(self, batch: Any) -> tuple[list[Any], Any]:
        raw, mapped, _ = batch
        return list(mapped), raw

    def _other(self, tensors: list[Any], extra: Any) -> Sequence[Any]:
        raw: Sequence[Any] = extra
        return raw


def place_variable(communicator: ft.Communicator) -> Any:
    """Variable with this rank's place among the living ranks, and their number."""
    return whole_numbers(_place(communicator))


def _place(communicator: ft.Communicator) -> list[int]:
    world = communicator.world
    return [world.ranks.index(world.rank), world.size]
