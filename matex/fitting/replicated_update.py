"""Updates that every rank computes from the whole batch, with averaged gradients.

They serve custom loops, and losses that are no mean over rows. The result is that of one process,
because each rank computes what that process would; the average only keeps the ranks bit-identical
despite rounding. When a rank dies no work is lost: the others average their gradients. If ranks
computed different gradients from the same batch, the step draws random numbers from an unseeded
generator: then the leader's gradients are used, which are one process's, too.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.checkpointing.stop_requests import stopped_in_own_loop
from matex.errors import TrainingError
from matex.exchange import sums
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.sources.stream import digest_of
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

_TAIL = 5  # square, not finite, leave, learning rate, one


class ReplicatedUpdate:
    """Averages gradients at every optimizer step, in a graph or outside. One per process.

    ``batch`` is the argument of the running train step, ``samples`` its number of rows, if known;
    ``differs`` is whether the ranks have drawn different random numbers in this fit.
    ``leave_agreed`` is whether any rank has a stop request. A custom loop is left before the
    update, by an exception on every rank. ``error`` is the cause of the last average's failure; an
    exception loses its type on the way through TensorFlow.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._rate = 0.0
        self.leave_agreed = False
        self.in_fit = False
        self.batch: Any = None
        self.samples = 0
        self.differs = False
        self.error: TrainingError | None = None

    def begin_fit(self) -> None:
        """Reset the flags for a fit, whose ranks agree on its end by themselves. Local."""
        self.leave_agreed = self.differs = False
        self.in_fit = True

    def average(self, optimizer: Any | None, gradients: list[Any]) -> list[Any]:
        """Mean over the ranks of each gradient, None for missing ones; collective when it runs.

        Gradients that are such means already are returned without an exchange. Slices stay separate
        slices: optimizers square them before they sum the slices of one row.

        Args:
            optimizer: optimizer that gets the leader's learning rate on all ranks; None for a tape.

        Raises:
            TrainingError: the ranks computed different gradients; on every rank.
        """
        return keras_hooks.mean_gradients(optimizer, gradients, self.batch, self._exchange)

    def _exchange(self, sparse: int, count: int, *parts: np.ndarray) -> list[np.ndarray]:
        """Means of *count* parts, the last of which is the learning rate.

        Before them come *sparse* parts with the rows of slices, and after them the batch.
        """
        run = self._run
        if not self.in_fit:
            run.calls.begin("an optimizer's step")
        started = time.perf_counter()
        run.faults.at("compute")
        rows, batch = parts[:sparse], parts[sparse + count :]
        *gradients, rate = parts[sparse : sparse + count]
        if sparse:
            self._meet(rows)
        send = self._packed(gradients, rate)
        run.faults.at("before-exchange")
        total = self._sum(send)
        run.faults.at("after-exchange")
        self._check(total, send, batch)
        self.leave_agreed = bool(total[-3] > 0)
        if self.leave_agreed and not self.in_fit and not run.script_checkpoints:
            self.error = stopped_in_own_loop()
            raise self.error
        elapsed = time.perf_counter() - started
        sent = Traffic(1, send.nbytes)
        samples, self.samples = self.samples, 0
        report = StepReport(
            samples=samples, planned=samples, step_s=elapsed, exchange_s=elapsed, sent=sent
        )
        run.step_done(report)
        cuts = np.cumsum([part.size for part in gradients])
        pieces = np.split(self._mean(total, send)[: cuts[-1]], cuts[:-1])
        shaped = [p.reshape(part.shape) for p, part in zip(pieces, gradients, strict=True)]
        return [*shaped, np.array(total[-2])]

    def _mean(self, total: np.ndarray, send: np.ndarray) -> np.ndarray:
        """Mean of the ranks' vectors; with virtual workers the leader's vector, then collective."""
        if not self._run.virtual_workers:
            return np.asarray(total / total[-1])
        leader_s = send.copy()
        self._run.communicator.broadcast(leader_s)
        return leader_s

    def _packed(self, gradients: list[np.ndarray], rate: np.ndarray) -> np.ndarray:
        run = self._run
        flat = np.concatenate([part.reshape(-1) for part in gradients])
        spoiled = bool(run.faults.take("nan")) or not np.isfinite(flat).all()
        square = 0.0 if spoiled else _square(flat)
        self._rate = float(rate)
        auxiliary = [square, spoiled, run.stop_request.is_requested, 0.0, 1.0]
        return np.concatenate([flat, np.array(auxiliary, flat.dtype)])

    def _sum(self, send: np.ndarray) -> np.ndarray:
        """Sum over the ranks, with the learning rate from the leader; recovers by itself."""
        communicator = self._run.communicator

        def prepare(vector: np.ndarray) -> None:
            self._run.faults.during("in-exchange")
            vector[-2] = self._rate if communicator.world.is_leader else 0.0

        return sums.over_members(communicator, send, prepare=prepare)

    def _meet(self, rows: tuple[np.ndarray, ...]) -> None:
        """Check that all ranks have slices for the same rows, which alone can be summed."""
        places = 0
        for part in rows:
            places = zlib.crc32(part.tobytes(), places + part.size)
        found = self._run.communicator.allgather(np.array(places)).rows
        self.error = None if (found == places).all() else TrainingError(_NOT_THE_SAME)
        if self.error is not None:
            raise self.error

    def _check(self, total: np.ndarray, send: np.ndarray, batch: Sequence[np.ndarray]) -> None:
        """Check that all ranks have sent equal gradients; collective if they have not.

        Args:
            total: sum of the ranks' vectors; if they drew different random numbers for the same
                *batch*, it is replaced by a multiple of the leader's vector.
        """
        self.error = None
        if _are_equal(total):
            return
        count = total[-1]
        if self._have_one_batch(batch):
            self._tell_differing()
            leader_s = send[:-_TAIL].copy()
            self._run.communicator.broadcast(leader_s)
            total[:-_TAIL] = leader_s * count
            return
        if total[-4]:
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


def _are_equal(total: np.ndarray) -> bool:
    """Whether *total* sums vectors that are equal up to rounding, or all not finite."""
    count, spoiled = float(total[-1]), float(total[-4])
    if spoiled:
        return spoiled == count
    square = float(total[-_TAIL]) / count
    excess = square - _square(total[:-_TAIL] / count)
    return abs(excess) <= _TOLERANCE * square + 1e-30


def _square(vector: np.ndarray) -> float:
    blocks = range(0, vector.size, _BLOCK)
    return sum(float(np.dot(b, b)) for b in (vector[i : i + _BLOCK] for i in blocks))
