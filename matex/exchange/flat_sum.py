"""Sum of the vectors by one allreduce."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matex.exchange.reduction import ReductionTerms

__all__ = ["FlatSum"]


class FlatSum:
    """Reduction by one allreduce of the vector; see :class:`matex.exchange.reduction.Reduction`."""

    def __init__(self, terms: ReductionTerms) -> None:
        self._terms = terms

    @property
    def result_count(self) -> int:
        return 1 if self._terms.is_large else 2

    @property
    def bytes(self) -> int:
        layout = self._terms.layout
        return layout.size * layout.dtype.itemsize

    def next_step(self) -> None:
        pass

    def next_operation(self) -> None:
        pass

    def reduce(self, send: np.ndarray, result: np.ndarray, is_whole: Callable[[], bool]) -> None:
        terms = self._terms
        terms.communicator.allreduce(
            send,
            result,
            valid=is_whole,
            untouched=True,
            barrier_first=self.result_count == 1,
            chunk=terms.chunk_elements,
        )

    def complete(self, result: np.ndarray) -> None:
        pass
