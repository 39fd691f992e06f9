"""Sum of the vectors with gradients as factors of low rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matex.exchange.flat_sum import FlatSum
from matex.exchange.powersgd import PowerSgd, rank_of
from matex.exchange.reduction import ReductionTerms

__all__ = ["PowerSgdSum"]


class PowerSgdSum(FlatSum):
    """Reduction by factors, which peers are handed; by one allreduce where one member is left.

    Attributes:
        powersgd: exchange of the factors.
    """

    def __init__(self, terms: ReductionTerms) -> None:
        super().__init__(terms)
        self.powersgd = PowerSgd(
            terms.communicator,
            terms.layout,
            rank=rank_of(terms.compression),
            route_of=terms.route_of,
        )

    @property
    def result_count(self) -> int:
        return 1  # peers may need the factors of a result instead of the result

    @property
    def bytes(self) -> int:
        return self.powersgd.bytes if self._terms.is_sliced else super().bytes

    def next_step(self) -> None:
        self.powersgd.next_step()

    def next_operation(self) -> None:
        self.powersgd.next_operation()

    def reduce(self, send: np.ndarray, result: np.ndarray, is_whole: Callable[[], bool]) -> None:
        if not self._terms.is_sliced:
            self.powersgd.skip()
            super().reduce(send, result, is_whole)
            return
        self._terms.communicator.attempt(
            self.powersgd.factors,
            lambda comm: self.powersgd.exchange(comm, send),
            lambda: self.powersgd.is_whole,
            untouched=True,
        )

    def complete(self, result: np.ndarray) -> None:
        self.powersgd.unpack(result)
