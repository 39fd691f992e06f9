"""The exchange through mpi4py: always available, called from the graph or directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ft
from matex.errors import TrainingError
from matex.exchange.buffers import aligned, copied, owned
from matex.exchange.layout import Header, Layout, header_of
from matex.exchange.reduction import ReductionTerms
from matex.exchange.reductions import make_reduction
from matex.exchange.route import Route

__all__ = ["HostExchange"]

# From this size on a barrier costs less than a second buffer for results.
_LARGE_BYTES = 16 << 20


class HostExchange:
    """One allreduce per step: packs the parts, sums them out of place, returns the sums.

    The packed contribution of the running step and the newest result, which a peer may still need
    during the next exchange, are kept: recovery adds the dead rank's work to the contribution, and
    sends the result to ranks that lack it. Small vectors alternate between two result buffers;
    large ones have one buffer, and a barrier before it is overwritten.

    A failure raises, so that the step fails before its update; the exception is kept in
    :attr:`error` (and in ``communicator.failure``), because it loses its type on the way through
    TensorFlow.

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
        self.layout = layout
        self._communicator = communicator
        self._faults = faults
        self.check_finite = check_finite
        self._terms = ReductionTerms(
            communicator=communicator,
            layout=layout,
            is_large=layout.size * layout.dtype.itemsize >= large_bytes,
            chunk=chunk,
            plan=plan,
            compression=compression,
            route_of=route_of,
        )
        self._reduction = make_reduction(self._terms)
        self._send = aligned(layout.size, layout.dtype)
        self._send_views = layout.views(self._send)
        results = [aligned(layout.size, layout.dtype) for _ in range(self._reduction.result_count)]
        self._results = [(vector, layout.views(vector)) for vector in results]
        self._operation = 0
        self._is_summed = False  # whether this step's sum is there
        self._began = time.perf_counter()
        self.expected = (0, 0)
        self.spoiled = False
        self.error: BaseException | None = None
        self.seconds = self.ended = 0.0

    @property
    def local(self) -> np.ndarray:
        """This rank's contribution to the running step; not to be written."""
        return self._send

    @property
    def result(self) -> list[np.ndarray]:
        """Parts of the newest sum, once complete; kept until the next sum is complete."""
        vector, views = self._results[0]
        self._reduction.complete(vector)
        return views

    @property
    def header(self) -> Header:
        """Header of the newest sum."""
        return header_of(self.result[-1])

    @property
    def bytes(self) -> int:
        """Bytes that this rank passes to MPI in one exchange."""
        return self._reduction.bytes

    def begin(self, *, samples: int, fingerprint: int) -> None:
        """Start a new step, with the expected number and fingerprint of its samples."""
        self.error = None
        self.spoiled = False
        self.expected = (samples, fingerprint)
        if self._is_summed:  # else the step before was given up, and what is left over still is
            self._reduction.next_step()
        self._is_summed = False
        self._began = time.perf_counter()

    def in_graph(self, parts: Sequence[Any]) -> list[Any]:
        """Sums of the tensors *parts*, by an operation in the graph being traced. Local."""
        import tensorflow as tf

        shapes, dtype = self.layout.shapes, self.layout.dtype
        sums: list[Any] = tf.numpy_function(
            lambda *arrays: owned(self(*arrays)), parts, [dtype] * len(shapes)
        )
        for part, shape in zip(sums, shapes, strict=True):
            part.set_shape(shape)
        return sums

    def run(self, fused: Callable[[], Any]) -> Any:
        """Run a graph that contains :meth:`in_graph`, and return its result; collective.

        Raises:
            tf.errors.OpError: the exchange failed; :attr:`error` has the cause.
        """
        return fused()

    def packed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """New vector with *parts* in their places."""
        return self.layout.packed(parts)

    def __call__(self, *parts: np.ndarray) -> list[np.ndarray]:
        """Sum *parts* over the ranks; collective.

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
            return self._exchange(finite)
        except BaseException as error:
            self.error = error
            raise

    def replay(self, vector: np.ndarray) -> list[np.ndarray]:
        """Repeat the interrupted operation with *vector* as this rank's contribution; collective.

        Raises:
            ft.PeerFailure, TrainingError: as in the first attempt.
        """
        copied(self._send, vector)
        return self._exchange(bool(np.isfinite(self.layout.gradients_in(self._send)).all()))

    # The three places where injected faults strike.

    def _before(self) -> None:
        self._faults.drag(time.perf_counter() - self._began)
        self._faults.at("before-exchange")

    def _ready(self) -> bool:
        """Whether a NaN must be injected into the contribution."""
        spoil = bool(self._faults.take("nan"))
        self._faults.during("in-exchange")
        return spoil

    def _after(self) -> None:
        self._faults.at("after-exchange")

    def _exchange(self, finite: bool) -> list[np.ndarray]:
        if self._ready():
            self._send[0], finite = np.nan, False
        self.spoiled = not finite
        if self.check_finite and self.spoiled:  # informs the others, which get it in their sums
            self._send[self.layout.header_at("nonfinite")] = 1.0
        result = self._next_result()
        started = time.perf_counter()
        self._reduce(result)
        self.ended = time.perf_counter()
        self.seconds = self.ended - started
        self._after()
        self.check()
        return self.result

    def _reduce(self, result: np.ndarray) -> None:
        self._reduction.reduce(self._send, result, self._is_whole)

    def _next_result(self) -> np.ndarray:
        """Buffer for the result; a replay writes to the buffer of the failed attempt."""
        operation = self._communicator.pending.operation
        if operation != self._operation:
            self._operation = operation
            self._results.reverse()
            self._reduction.next_operation()
        return self._results[0][0]

    def _is_whole(self) -> bool:
        return self.header.ranks == self._communicator.world.size

    def check(self) -> None:
        """Check that the newest result is complete. Local; raises equally on every rank.

        Raises:
            TrainingError: the message gives the expected and the received values.
        """
        self._is_summed = True
        header = self.header
        if header.nonfinite and self.check_finite:
            raise TrainingError("a rank computed gradients that are not finite")
        samples, fingerprint = self.expected
        if (header.samples, header.fingerprint) != (samples, fingerprint):
            raise TrainingError(
                f"a step must be made of each of its {samples} samples once. Received: "
                f"{header.samples:.0f} samples, fingerprint {header.fingerprint:.0f} "
                f"for {fingerprint}"
            )
