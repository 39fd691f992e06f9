"""Updates that every rank computes from the whole batch, with gradients that are equal on all.

They serve custom loops, and losses that are no mean over rows. The result is that of one process,
because each rank computes what that process would. Ranks compare checksums of their gradients; only
where these differ, by rounding on other processors, the gradients are averaged, which keeps the
ranks bit-identical. When a rank dies no work is lost. If ranks computed gradients from the same
batch that differ by more, those of one rank are used, which are one process's, too: of a majority
that agrees, else the leader's. Either the step draws random numbers from an unseeded generator, or
weights differ; a fit compares these after the step, see :mod:`matex.fitting.whole_batches`.
Gradients that are not finite on some ranks only are replaced by those of another rank; if they are
so on all ranks, the run stops.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NonFiniteGradients, TrainingError
from matex.exchange import sums
from matex.exchange.traffic import Traffic
from matex.fitting.equal_sums import TAIL, are_equal, cut, packed
from matex.fitting.gradient_comparison import Comparison, compared
from matex.fitting.step_counts import StepCounts
from matex.preemption.stop_request import stopped_in_custom_loop
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.nonfinite_notes import note_replaced
from matex.sources.digests import digest_of
from matex.steps.nonfinite import whole_batch_error

__all__ = ["ReplicatedUpdate"]

_NOT_THE_SAME = (
    "outside of fit's shared steps every rank must compute the same. Received: gradients that "
    "differ; give all ranks the same whole data, so delete what shards them by rank, such as "
    "dataset.shard(size, rank), and seed every random generator of the script and its input"
)


class ReplicatedUpdate:
    """Compares gradients at every optimizer step, and averages different ones. One per process.

    ``samples`` is the number of rows of the running train step, if known; ``counts`` counts the
    steps; ``differs`` is whether the ranks have drawn different random numbers in this fit;
    ``finite`` are the ranks with finite gradients in the running train step, if others had none;
    ``are_uneven`` is whether gradients differed in it at all, ``have_drawn`` by more than rounding.
    ``leave_agreed`` is whether any rank has a stop request. A custom loop is left before the
    update, by an exception on every rank. ``error`` is the cause of the last average's failure; an
    exception loses its type on the way through TensorFlow.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._ledger = run.records.ledger
        self.leave_agreed = False
        self.in_fit = False
        self.samples = 0
        self.counts = StepCounts(run.steps)
        self.differs = False
        self.begin_comparison()
        self.error: TrainingError | None = None
        self._leaves_nan = False
        self._batch: Any = None
        self._places = 0  # updates in the train step, as far as it is traced or run

    def begin_comparison(self) -> None:
        """Forget how the gradients of the last train step differed. Local."""
        self.finite: tuple[int, ...] = ()
        self.are_uneven = self.have_drawn = False

    def begin_fit(self, *, leaves_nan: bool) -> None:
        """Reset the flags for a fit, whose ranks agree on its end by themselves. Local.

        Args:
            leaves_nan: whether a callback stops at a NaN, so that none stops the run.
        """
        self.leave_agreed = self.differs = False
        self.in_fit, self._leaves_nan = True, leaves_nan

    def end_fit(self) -> None:
        """End the fit, or do nothing if there is none; local."""
        self.in_fit = self._leaves_nan = False

    @contextlib.contextmanager
    def own_error(self) -> Iterator[None]:
        """Context in which an update's error keeps its type on the way through TensorFlow."""
        self.error = None
        try:
            yield
        except keras_hooks.OpError:
            if self.error is None:
                raise
            raise self.error from None

    def begin_train_step(self, batch: Any) -> None:
        """Note the *batch* of a train step that is traced or run; None after it. Local."""
        self._batch, self._places = batch, 0

    def average(self, optimizer: Any | None, gradients: list[Any]) -> list[Any]:
        """Mean over the ranks of each gradient, None for missing ones; collective when it runs.

        Gradients that are such means already are returned without an exchange. Slices stay separate
        slices: optimizers square them before they sum the slices of one row.

        Args:
            optimizer: optimizer that gets the leader's learning rate on all ranks; None for a tape.

        Raises:
            TrainingError: the ranks computed different gradients; on every rank.
            NonFiniteGradients: all ranks are to update weights by NaN or infinity; on every rank.
        """
        # A tape's may be looked at by the script, and a LossScaleOptimizer looks itself.
        leaves = optimizer is None or keras_hooks.traits_of(optimizer).scales_loss
        exchange = functools.partial(self._exchange, self._places, leaves)
        self._places += 1
        return keras_hooks.mean_gradients(optimizer, gradients, self._batch, exchange)

    def _exchange(
        self, place: int, leaves_nan: bool, sparse: int, count: int, *parts: np.ndarray
    ) -> list[np.ndarray]:
        """Means of *count* parts, the last of which is the learning rate.

        Before them come *sparse* parts with the rows of slices, and after them the batch. The
        update has this *place* among those of a train step, and *leaves_nan* to others.
        """
        run = self._run
        self.counts.update_begins(place)
        if not self.in_fit:
            run.calls.begin("an optimizer's step")
        started = time.perf_counter()
        run.steps.faults.at("compute")
        rows, batch = parts[:sparse], parts[sparse + count :]
        *gradients, rate = parts[sparse : sparse + count]
        self.error = None
        if run.steps.faults.take("nan"):
            gradients = [np.full_like(part, np.nan) for part in gradients]
        run.steps.faults.at("before-exchange")
        found = compared(run, rows, gradients, rate)
        self.are_uneven |= not found.are_equal
        nbytes = found.nbytes
        if not found.finite and not leaves_nan and not self._leaves_nan:
            self.error = whole_batch_error(run.config.nonfinite, step=self._ledger.step)
            raise self.error
        if found.are_equal:
            gradients = [part.copy() for part in gradients]  # TensorFlow may write into results
        elif not found.have_equal_rows:
            self.error = TrainingError(_NOT_THE_SAME)
            raise self.error
        elif found.finite and found.spoiled:
            gradients, nbytes = self._replaced(gradients, batch, found)
        else:
            gradients, nbytes = self._averaged(gradients, batch, found)
        run.steps.faults.at("after-exchange")
        self.leave_agreed = found.leaves
        if self.leave_agreed and not self.in_fit and not run.checkpoints.by_script:
            self.error = stopped_in_custom_loop()
            raise self.error
        elapsed = time.perf_counter() - started
        sent = Traffic(1, nbytes)
        samples, self.samples = self.samples, 0
        report = StepReport(
            samples=samples, planned=samples, step_s=elapsed, exchange_s=elapsed, sent=sent
        )
        self.counts.update_done(report)
        return [*gradients, np.array(found.rate, rate.dtype)]

    def _replaced(
        self, gradients: list[np.ndarray], batch: Sequence[np.ndarray], found: Comparison
    ) -> tuple[list[np.ndarray], int]:
        """Gradients of a rank whose are finite, and the number of bytes sent; collective.

        Raises:
            NonFiniteGradients: the ranks may have had different batches; on every rank.
        """
        if not self._have_one_batch(batch):
            self.error = NonFiniteGradients(
                f"step {self._ledger.step} has gradients that are not finite on rank "
                f"{', '.join(map(str, found.spoiled))}, and no batch known to be that of the others"
            )
            raise self.error
        both = tuple(rank for rank in self.finite if rank in found.finite)
        self.finite = both or found.finite
        events = self._run.records.events if self._run.communicator.world.is_leader else None
        source, step = self.finite[0], self._ledger.step
        note_replaced(events, self._run.terminal, found.spoiled, source, step=step)
        flat = packed(gradients)[:-TAIL]
        self._run.communicator.broadcast(flat, sources=self.finite)
        return cut(flat, gradients), flat.nbytes

    def _averaged(
        self, gradients: list[np.ndarray], batch: Sequence[np.ndarray], found: Comparison
    ) -> tuple[list[np.ndarray], int]:
        """Means of the ranks' *gradients*, or one rank's, and the number of bytes sent; collective.

        Raises:
            TrainingError: they differ by more than rounding, and so do batches; on every rank.
        """
        send = packed(gradients)
        total = self._sum(send)
        if are_equal(total):
            flat = self._mean(total, send)
        elif self._have_one_batch(batch):
            flat = send.copy()
            self._run.communicator.broadcast(flat, sources=found.majority)
            self.have_drawn = True
            if not self.in_fit:
                self.tell_differing()
        else:
            self.error = TrainingError(_NOT_THE_SAME)
            raise self.error
        return cut(flat[:-TAIL], gradients), send.nbytes

    def _mean(self, total: np.ndarray, send: np.ndarray) -> np.ndarray:
        """Mean of the ranks' vectors; with virtual workers the leader's vector, then collective."""
        if not self._run.ranks.virtual_workers:
            return np.asarray(total / total[-1])
        leader_s = send.copy()
        self._run.communicator.broadcast(leader_s)
        return leader_s

    def _sum(self, send: np.ndarray) -> np.ndarray:
        """Sum over the ranks; recovers by itself."""

        def prepare(_: np.ndarray) -> None:
            self._run.steps.faults.during("in-exchange")

        return sums.over_members(self._run.communicator, send, prepare=prepare)

    def _have_one_batch(self, batch: Sequence[np.ndarray]) -> bool:
        """Whether all ranks know this step's batch and it is equal; collective."""
        mine = np.array([bool(batch), digest_of(0, batch)], np.int64)
        rows = self._run.communicator.allgather(mine).rows
        return bool(rows[0, 0]) and bool((rows == rows[0]).all())

    def tell_differing(self) -> None:
        """Note that the ranks draw different random numbers, and tell it once. Local."""
        if not self.differs:
            self.differs = True
            self._run.terminal.say(
                "the ranks computed other gradients from the same batch, so the step draws random "
                "numbers by a generator without a common seed: those of one rank count for all"
            )
