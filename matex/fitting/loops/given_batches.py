"""Source of batches that the script passes in one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex.sources.digests import digest
from matex.sources.stream import Stream
from matex.sources.stream_batch import StreamBatch

__all__ = ["GivenBatches"]


class GivenBatches:
    """Source of batches that the script passes in one at a time. Local.

    Args:
        signature: signature of the tensors of the batches.
        as_data: function that makes data of the script's form of such tensors.
        digest: start value of the batches' digests.
        most_rows: number of rows of the first batch, if a larger one needs another source; None by
            default.
    """

    explanation = Stream.explanation

    def __init__(
        self,
        signature: Any,
        as_data: Callable[[Any], Any],
        digest: int,
        *,
        most_rows: int | None = None,
    ) -> None:
        self.signature = signature
        self.as_data = as_data
        self.most_rows = most_rows
        self._digest = digest

    def batch_of(self, tensors: list[Any], rows: int) -> StreamBatch:
        """Global batch of *tensors* that the script has passed in."""
        self._digest = digest(self._digest, tensors, last=False)
        return StreamBatch(tensors, (0, rows), self._digest, last=False)

    def sample(self) -> None:
        """Return None: no newcomer joins these steps."""

    def after_step(self, step: int) -> tuple[int, int]:
        return 0, 0
