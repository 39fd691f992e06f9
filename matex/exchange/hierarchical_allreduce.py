"""Sum of the vectors by slices along a route, in the format of the compression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matex.exchange.flat_sum import FlatSum
from matex.exchange.reduction import ReductionTerms
from matex.exchange.route import Extent
from matex.exchange.slices import Slices

__all__ = ["HierarchicalAllreduce"]


class HierarchicalAllreduce(FlatSum):
    """Reduction by slices; by one allreduce where the plan and the members want it.

    Attributes:
        slices: exchange of the slices, which the native exchange makes by itself.
    """

    def __init__(self, terms: ReductionTerms) -> None:
        super().__init__(terms)
        layout = terms.layout
        self.slices = Slices(
            terms.communicator,
            Extent(layout.lasting, layout.offsets[-2], layout.size, layout.dtype),
            compression=terms.compression,
            route_of=terms.route_of,
        )

    @property
    def bytes(self) -> int:
        return self.slices.bytes if self._terms.is_sliced else super().bytes

    def next_step(self) -> None:
        self.slices.next_step()

    def reduce(self, send: np.ndarray, result: np.ndarray, is_whole: Callable[[], bool]) -> None:
        terms = self._terms
        if not terms.is_sliced:
            self.slices.skip()
            super().reduce(send, result, is_whole)
            return
        terms.communicator.attempt(
            result,
            lambda comm: self.slices.exchange(comm, send, result),
            is_whole,
            untouched=True,
        )
