"""The part that all exchanges of a step have in common: vectors, faults, proof of the sum."""

from __future__ import annotations

import time

import numpy as np

import ft
from matex.errors import TrainingError
from matex.exchange.buffers import aligned
from matex.exchange.layout import Header, Layout, header_of
from matex.exchange.reduction import Reduction

__all__ = ["StepExchange"]


class StepExchange:
    """An exchange of the vectors of one layout: one sum out of place for each step.

    The packed contribution of the running step and the newest result, which a peer may still need
    during the next exchange, are kept: recovery adds the dead rank's work to the contribution, and
    sends the result to ranks that lack it.

    A failure raises, so that the step fails before its update; the exception is kept in
    :attr:`error` (and in ``communicator.failure``), because it loses its type on the way through
    TensorFlow. ``seconds`` is the time of the newest sum, ``ended`` the end of it.

    Args:
        communicator: communicator of the members.
        layout: layout of the vector.
        reduction: reduction that makes the sums.
        faults: fault injector, which may strike before, during and after the exchange.
        check_finite: whether to check gradients for NaN and infinity before they spread.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        reduction: Reduction,
        *,
        faults: ft.Injector,
        check_finite: bool = True,
    ) -> None:
        self.layout = layout
        self._communicator = communicator
        self._faults = faults
        self.check_finite = check_finite
        self._reduction = reduction
        self._send = aligned(layout.size, layout.dtype)
        self._send_views = layout.views(self._send)
        results = [aligned(layout.size, layout.dtype) for _ in range(reduction.result_count)]
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
    def header(self) -> Header:
        """Header of the newest sum."""
        return header_of(self.result()[-1])

    @property
    def bytes(self) -> int:
        """Bytes that this rank passes to MPI in one exchange."""
        return self._reduction.bytes

    def result(self) -> list[np.ndarray]:
        """Parts of the newest sum, once complete; kept until the next sum is complete.

        What a reduction sends in another form is made the sum by the first call.
        """
        vector, views = self._results[0]
        self._reduction.complete(vector)
        return views

    def begin(self, *, samples: int, fingerprint: int, again: bool = False) -> None:
        """Start a new step, or begin one anew. Local.

        Args:
            samples, fingerprint: number and fingerprint of the samples that the step is made of.
            again: whether it is the step of before, whose sum, if there was one, is not used. False
                by default.
        """
        self.error = None
        self.spoiled = False
        self.expected = (samples, fingerprint)
        # Else the step before was given up, and what the one before that left over still is.
        if self._is_summed and not again:
            self._reduction.next_step()
        self._is_summed = False
        self._began = time.perf_counter()

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
            received = f"{header.samples:.0f} samples"
            if header.samples == samples:
                received += (
                    ", of which some are others: their numbers have the hash "
                    f"{header.fingerprint:.0f} and not {fingerprint}"
                )
            raise TrainingError(
                f"a step must be made of each of its {samples} samples once. Received: {received}; "
                "check that all ranks read the same data in the same order"
            )

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

    def _exchange(self, finite: bool) -> None:
        """Sum the packed contribution, of which *finite* says whether all gradients are."""
        if self._ready():
            self._send[0], finite = np.nan, False
        self.spoiled = not finite
        if self.check_finite and self.spoiled:  # informs the others, which get it in their sums
            self._send[self.layout.header_at("nonfinite")] = 1.0
        result = self._next_result()
        started = time.perf_counter()
        self._reduction.reduce(self._send, result, self._is_whole)
        self.ended = time.perf_counter()
        self.seconds = self.ended - started
        self._after()
        self.check()

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
