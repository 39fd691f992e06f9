"""Updates that every rank computes from the whole batch, with gradients that are equal on all.

They serve custom loops, and losses that are no mean over rows. The result is that of one process,
because each rank computes what that process would. Ranks compare checksums of their gradients; only
where these differ, by rounding on other processors, the gradients are averaged, which keeps the
ranks bit-identical. When a rank dies no work is lost. If ranks computed gradients from the same
batch that differ by more, the step draws random numbers from an unseeded generator: then the
leader's gradients are used, which are one process's, too.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from matex import keras_hooks
from matex.checkpointing.stop_requests import stopped_in_custom_loop
from matex.errors import TrainingError
from matex.exchange import sums
from matex.exchange.checksum import checksum
from matex.fitting.step_counts import StepCounts
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.sources.digests import digest_of
from matex.strategies import Traffic

__all__ = ["ReplicatedUpdate"]

# Relative excess of the mean square over the square of the mean: equal gradients differ by
# rounding, far below it; gradients of different data by far more.
_TOLERANCE = 1e-5

_BLOCK = 1 << 16

_NOT_THE_SAME = (
    "outside of fit's shared steps every rank must compute the same. Received: gradients that "
    "differ; give all ranks the same whole data, so delete what shards them by rank, such as "
    "dataset.shard(size, rank), and seed every random generator of the script and its input"
)

_TAIL = 3  # square, not finite, one

_ROW = np.dtype([("checksum", "i8"), ("rate", "f8"), ("leaves", "?"), ("spoiled", "?")], align=True)


class _Comparison(NamedTuple):
    """Comparison of the ranks' gradients; equal on all ranks.

    ``have_equal_rows`` is whether slices are of the same rows, which alone can be summed;
    ``leaves`` whether some rank has a stop request; ``rate`` the leader's learning rate.
    """

    have_equal_rows: bool
    are_equal: bool
    leaves: bool
    rate: float
    nbytes: int


class ReplicatedUpdate:
    """Compares gradients at every optimizer step, and averages different ones. One per process.

    ``samples`` is the number of rows of the running train step, if known; ``counts`` counts the
    steps; ``differs`` is whether the ranks have drawn different random numbers in this fit.
    ``leave_agreed`` is whether any rank has a stop request. A custom loop is left before the
    update, by an exception on every rank. ``error`` is the cause of the last average's failure; an
    exception loses its type on the way through TensorFlow.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self.leave_agreed = False
        self.in_fit = False
        self.samples = 0
        self.counts = StepCounts(run)
        self.differs = False
        self.error: TrainingError | None = None
        self._batch: Any = None
        self._places = 0  # updates in the train step, as far as it is traced or run

    def begin_fit(self) -> None:
        """Reset the flags for a fit, whose ranks agree on its end by themselves. Local."""
        self.leave_agreed = self.differs = False
        self.in_fit = True

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
        """
        exchange = functools.partial(self._exchange, self._places)
        self._places += 1
        return keras_hooks.mean_gradients(optimizer, gradients, self._batch, exchange)

    def _exchange(
        self, place: int, sparse: int, count: int, *parts: np.ndarray
    ) -> list[np.ndarray]:
        """Means of *count* parts, the last of which is the learning rate.

        Before them come *sparse* parts with the rows of slices, and after them the batch. The
        update has this *place* among those of a train step.
        """
        run = self._run
        self.counts.update_begins(place)
        if not self.in_fit:
            run.calls.begin("an optimizer's step")
        started = time.perf_counter()
        run.faults.at("compute")
        rows, batch = parts[:sparse], parts[sparse + count :]
        *gradients, rate = parts[sparse : sparse + count]
        self.error = None
        spoiled = bool(run.faults.take("nan"))
        run.faults.at("before-exchange")
        found = self._compared(rows, gradients, rate, spoiled=spoiled)
        nbytes = found.nbytes
        if found.are_equal:
            gradients = [part.copy() for part in gradients]  # TensorFlow may write into results
        elif not found.have_equal_rows:
            self.error = TrainingError(_NOT_THE_SAME)
            raise self.error
        else:
            gradients, nbytes = self._averaged(gradients, batch, spoiled=spoiled)
        run.faults.at("after-exchange")
        self.leave_agreed = found.leaves
        if self.leave_agreed and not self.in_fit and not run.script_checkpoints:
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

    def _compared(
        self,
        rows: Sequence[np.ndarray],
        gradients: list[np.ndarray],
        rate: np.ndarray,
        *,
        spoiled: bool,
    ) -> _Comparison:
        """Compare what the ranks have computed; collective, and recovers by itself."""
        mine = np.array(
            [
                (checksum(rows), 0.0, False, False),
                (checksum(gradients), rate, self._run.stop_request.is_requested, spoiled),
            ],
            _ROW,
        )
        self._run.faults.during("in-exchange")
        gathered = self._run.communicator.allgather(mine.view(np.uint8)).rows
        places, values = gathered.view(_ROW).reshape(-1, 2).T
        have_equal_rows = len(set(places["checksum"].tolist())) == 1
        return _Comparison(
            have_equal_rows=have_equal_rows,
            are_equal=(
                have_equal_rows
                and len(set(values["checksum"].tolist())) == 1
                and not values["spoiled"].any()
            ),
            leaves=bool(values["leaves"].any()),
            rate=float(values["rate"][0]),  # the first row is the leader's
            nbytes=mine.nbytes,
        )

    def _averaged(
        self, gradients: list[np.ndarray], batch: Sequence[np.ndarray], *, spoiled: bool
    ) -> tuple[list[np.ndarray], int]:
        """Means of the ranks' *gradients*, and the number of bytes sent; collective.

        Raises:
            TrainingError: they differ by more than rounding; on every rank.
        """
        send = _packed(gradients, spoiled=spoiled)
        total = self._sum(send)
        self._check(total, send, batch)
        cuts = np.cumsum([part.size for part in gradients])
        pieces = np.split(self._mean(total, send)[: cuts[-1]], cuts[:-1])
        shaped = [p.reshape(part.shape) for p, part in zip(pieces, gradients, strict=True)]
        return shaped, send.nbytes

    def _mean(self, total: np.ndarray, send: np.ndarray) -> np.ndarray:
        """Mean of the ranks' vectors; with virtual workers the leader's vector, then collective."""
        if not self._run.virtual_workers:
            return np.asarray(total / total[-1])
        leader_s = send.copy()
        self._run.communicator.broadcast(leader_s)
        return leader_s

    def _sum(self, send: np.ndarray) -> np.ndarray:
        """Sum over the ranks; recovers by itself."""

        def prepare(_: np.ndarray) -> None:
            self._run.faults.during("in-exchange")

        return sums.over_members(self._run.communicator, send, prepare=prepare)

    def _check(self, total: np.ndarray, send: np.ndarray, batch: Sequence[np.ndarray]) -> None:
        """Check that all ranks have sent equal gradients; collective if they have not.

        Args:
            total: sum of the ranks' vectors; if they drew different random numbers for the same
                *batch*, it is replaced by a multiple of the leader's vector.
        """
        if _are_equal(total):
            return
        count = total[-1]
        if self._have_one_batch(batch):
            self._tell_differing()
            leader_s = send[:-_TAIL].copy()
            self._run.communicator.broadcast(leader_s)
            total[:-_TAIL] = leader_s * count
            return
        if total[-2]:
            self.error = TrainingError("some ranks computed gradients that are not finite")
        else:
            self.error = TrainingError(_NOT_THE_SAME)
        raise self.error

    def _have_one_batch(self, batch: Sequence[np.ndarray]) -> bool:
        """Whether all ranks know this step's batch and it is equal; collective."""
        mine = np.array([bool(batch), digest_of(0, batch)], np.int64)
        rows = self._run.communicator.allgather(mine).rows
        return bool(rows[0, 0]) and bool((rows == rows[0]).all())

    def _tell_differing(self) -> None:
        if not self.differs:
            self.differs = True
            self._run.say(
                "the ranks computed other gradients from the same batch, so the step draws random "
                "numbers by a generator without a common seed: those of one rank count for all"
            )


def _packed(gradients: list[np.ndarray], *, spoiled: bool) -> np.ndarray:
    """Vector of *gradients* and of the tail by which their sum is judged."""
    flat = np.concatenate([part.reshape(-1) for part in gradients])
    spoiled = spoiled or not np.isfinite(flat).all()
    square = 0.0 if spoiled else _square(flat)
    return np.concatenate([flat, np.array([square, spoiled, 1.0], flat.dtype)])


def _are_equal(total: np.ndarray) -> bool:
    """Whether *total* sums vectors that are equal up to rounding, or all not finite."""
    count, spoiled = float(total[-1]), float(total[-2])
    if spoiled:
        return spoiled == count
    square = float(total[-_TAIL]) / count
    excess = square - _square(total[:-_TAIL] / count)
    return abs(excess) <= _TOLERANCE * square + 1e-30


def _square(vector: np.ndarray) -> float:
    blocks = range(0, vector.size, _BLOCK)
    return sum(float(np.dot(b, b)) for b in (vector[i : i + _BLOCK] for i in blocks))
