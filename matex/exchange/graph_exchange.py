"""The exchange as an operation in a step's graph, which can be replayed after a death."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ft
from matex.exchange.buffers import copied
from matex.exchange.layout import Layout
from matex.exchange.reduction import ReductionTerms
from matex.exchange.reductions import make_reduction
from matex.exchange.route import Route
from matex.exchange.step_exchange import StepExchange

__all__ = ["GraphExchange"]

# From this size on a barrier costs less than a second buffer for results.
_LARGE_BYTES = 16 << 20


class GraphExchange(StepExchange, ABC):
    """An exchange that a step's graph makes, or that is called with arrays.

    Ranks may have different ones: all make the same MPI calls. Small vectors alternate between two
    result buffers; large ones have one buffer, and a barrier before it is overwritten.

    Args:
        communicator: communicator of the members; :meth:`run`, :meth:`__call__` and :meth:`replay`
            are collective over them.
        layout: layout of the vector.
        faults: fault injector, which may strike before, during and after the exchange.
        check_finite: whether to check gradients for NaN and infinity before they spread.
        large_bytes: size of the vector from which there is one result buffer.
        chunk: elements of one MPI call; chosen by the number of ranks by default.
        plan: one of :data:`matex.exchange.plan.PLANS`.
        compression: a key of :data:`matex.exchange.reductions.REDUCTIONS`; ``powersgd:R`` with the
            rank R of factors.
        route_of: function that returns the route of slices among the members.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        faults: ft.Injector,
        check_finite: bool = True,
        large_bytes: int = _LARGE_BYTES,
        chunk: int | None = None,
        plan: str = "auto",
        compression: str = "none",
        route_of: Callable[[ft.World], Route] = Route.of,
    ) -> None:
        self._terms = ReductionTerms(
            communicator=communicator,
            layout=layout,
            is_large=layout.size * layout.dtype.itemsize >= large_bytes,
            chunk=chunk,
            plan=plan,
            compression=compression,
            route_of=route_of,
        )
        reduction = make_reduction(self._terms)
        super().__init__(communicator, layout, reduction, faults=faults, check_finite=check_finite)

    @abstractmethod
    def in_graph(self, parts: Sequence[Any]) -> list[Any]:
        """Sums of the tensors *parts*, by an operation in the graph being traced. Local.

        They have memory of their own: TensorFlow lets a variable adopt that of what is assigned.
        """

    @abstractmethod
    def run(self, fused: Callable[[], Any]) -> Any:
        """Run a graph that contains :meth:`in_graph`, and return its result; collective.

        Raises:
            tf.errors.OpError: the exchange failed; :attr:`error` has the cause.
        """

    def packed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """New vector with *parts* in their places."""
        return self.layout.packed(parts)

    def __call__(self, *parts: np.ndarray) -> list[np.ndarray]:
        """Sum *parts* over the ranks; collective.

        Returns:
            The sums, as :meth:`result` does.

        Raises:
            ft.PeerFailure: recover, then call :meth:`replay` with the missing rows added.
            TrainingError: the sum is not over this step's samples, or not finite.
        """
        try:
            self._before()
            finite = True
            for view, part in zip(self._send_views[:-1], parts[:-1], strict=True):
                finite = copied(view, part) and finite
            copied(self._send_views[-1], parts[-1])  # a metric may be NaN, as in plain Keras
            self._exchange(finite)
        except BaseException as error:
            self.error = error
            raise
        return self.result()

    def replay(self, vector: np.ndarray) -> None:
        """Repeat the interrupted operation with *vector* as this rank's contribution; collective.

        Raises:
            ft.PeerFailure, TrainingError: as in the first attempt.
        """
        copied(self._send, vector)
        self._exchange(bool(np.isfinite(self.layout.gradients_in(self._send)).all()))
