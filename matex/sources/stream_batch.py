"""A batch of a stream: whole on every rank, of which each takes rows. Local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable
from matex.keras_hooks.rows import values_of_row
from matex.partition.order import hashes
from matex.partition.slot_capacity import SlotCapacity
from matex.partition.spans import Span

__all__ = ["StreamBatch"]


class StreamBatch:
    """A whole global batch, of which each rank takes rows. Local.

    Args:
        tensors: leaves of the batch. If their numbers of rows differ, ``uneven`` says so, and only
            the whole batch is available.
        span: interval of the batch in the epoch.
        digest: digest of everything up to and with this batch.
        last: whether it is the last batch.
    """

    def __init__(self, tensors: Sequence[Any], span: Span, digest: int, last: bool) -> None:
        self._tensors = tensors
        self._hashes = hashes(
            np.arange(span[1] - span[0]) + np.uint64(digest), span[1] - span[0] + 1
        )
        self.span = span
        self.last = last
        self.uneven = _uneven(tensors)

    @property
    def capacity(self) -> SlotCapacity:
        """Capacity of slots that its rows need."""
        values = tuple(map(values_of_row, self._tensors))
        return SlotCapacity(self.span[1] - self.span[0], values)

    def rows(self, spans: Sequence[Span]) -> tuple[Any, ...]:
        start = self.span[0]
        if self.uneven:
            if list(spans) != [self.span]:
                raise NotShareable(self.uneven)
            return tuple(self._tensors)
        return tuple(
            _joined([keras_hooks.cut_rows(tensor, lo - start, hi - start) for lo, hi in spans])
            for tensor in self._tensors
        )

    def fingerprint(self, spans: Sequence[Span]) -> int:
        start = self.span[0]
        return sum(int(self._hashes[lo - start : hi - start].sum()) for lo, hi in spans)


def _uneven(tensors: Sequence[Any]) -> str:
    """Reason for which *tensors* cannot be divided into the same rows; "" if they can."""
    counts = {keras_hooks.row_count(tensor) for tensor in tensors}
    if len(counts) == 1 and -1 not in counts:
        return ""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
    return f"the tensors of a batch have different numbers of rows, in shapes {shapes}"


def _joined(pieces: Sequence[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else keras_hooks.joined(pieces)
