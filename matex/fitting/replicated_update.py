"""Updates that every rank computes from the whole batch, and whose gradients are averaged.

They serve custom loops, and losses that are no mean over rows. The result is that of one process,
because each rank does what that process would do; the average only keeps the ranks equal to the
last bit, whatever their rounding. When a rank dies no work is lost: the others average the
gradients that they have. Where ranks computed different gradients from the same batch, the step
draws random numbers from a generator that no seed reaches: then the leader's gradients count, which
are one process's, too.
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

# Relative excess of the mean square over the square of the mean: ranks that computed the
# same differ by rounding, far below it; in data that differ, by far more.
_TOLERANCE = 1e-5

_BLOCK = 1 << 16

_NOT_THE_SAME = (
    "outside of fit's shared steps every rank must compute the same. Received: gradients that "
    "differ; give all ranks the same whole data, so delete what shards them by rank, such as "
    "dataset.shard(size, rank), and seed every random generator of the script and its input"
)

_TAIL = 5  # square, not finite, leave, learning rate, one


class ReplicatedUpdate:
    """Averages gradients at every optimizer step, in a graph or outside. One to a process.

    ``batch`` is what the running train step was given, ``samples`` how many rows that were, where
    it is known; ``differs`` whether the ranks have drawn other numbers in this fit.
    ``leave_agreed`` is whether any rank was told to leave. A loop of the script's own is left
    before the update, by an error on every rank. ``error`` is why the last average failed;
    an exception loses its type on the way through TensorFlow.
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
        """Reset the flags for a fit, which itself makes all ranks agree on its end. Local."""
        self.leave_agreed = self.differs = False
        self.in_fit = True

    def average(self, optimizer: Any | None, gradients: list[Any]) -> list[Any]:
        """The ranks' mean of each gradient, None where there is none; collective when it runs.

        Gradients that are such means already are given back, and nothing is exchanged. Slices
        stay slices, each by itself: optimizers square them before they add up what falls to
        one row.

        Args:
            optimizer: whose learning rate the ranks take from the leader; None for a tape.

        Raises:
            TrainingError: the ranks did not compute the same; on all of them.
        """
        return keras_hooks.mean_gradients(optimizer, gradients, self.batch, self._exchange)

    def _exchange(self, sparse: int, count: int, *parts: np.ndarray) -> list[np.ndarray]:
        """The means of *count* parts, the last of which is the rate.

        Before them come *sparse* that say where slices belong, and behind them the batch.
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
        """The mean of what the ranks sent; collective where its bits must not follow from them."""
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
        """Over the ranks, of which the leader sends the learning rate; every one holds the work."""
        communicator = self._run.communicator

        def prepare(vector: np.ndarray) -> None:
            self._run.faults.during("in-exchange")
            vector[-2] = self._rate if communicator.world.is_leader else 0.0

        return sums.over_members(communicator, send, prepare=prepare)

    def _meet(self, rows: tuple[np.ndarray, ...]) -> None:
        """Make sure that all have slices for the same rows: other numbers of them do not add up."""
        places = 0
        for part in rows:
            places = zlib.crc32(part.tobytes(), places + part.size)
        found = self._run.communicator.allgather(np.array(places)).rows
        self.error = None if (found == places).all() else TrainingError(_NOT_THE_SAME)
        if self.error is not None:
            raise self.error

    def _check(self, total: np.ndarray, send: np.ndarray, batch: Sequence[np.ndarray]) -> None:
        """Whether all ranks have sent the same; collective where they have not.

        Args:
            total: sum of what the ranks sent; where they drew other numbers for the same *batch*
                it becomes as many times what the leader sent.
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
        """Whether this step is of one batch, known and the same on all ranks; collective."""
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
    """Whether *total* is of vectors that differ by no more than rounding, or all not finite."""
    count, spoiled = float(total[-1]), float(total[-4])
    if spoiled:
        return spoiled == count
    square = float(total[-_TAIL]) / count
    excess = square - _square(total[:-_TAIL] / count)
    return abs(excess) <= _TOLERANCE * square + 1e-30


def _square(vector: np.ndarray) -> float:
    blocks = range(0, vector.size, _BLOCK)
    return sum(float(np.dot(b, b)) for b in (vector[i : i + _BLOCK] for i in blocks))
