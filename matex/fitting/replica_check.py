"""Comparison of replicas that should be bit-identical, and repair of a minority.

Memory, a cache or an arithmetic unit may corrupt a number silently. On one rank the corruption
stays in that rank's weights, which differ from then on, and spreads through its gradients to all
ranks equally. At intervals a 64-bit hash of weights and optimizer state is gathered. If more than
half of the ranks agree, the others get the state of one of them. The effect of the corruption
on the gradients meanwhile stays: it was the same on all ranks, so replicas become equal again, but
are not as without it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.checkpointing import model_state
from matex.fitting.agreement import check_hashes
from matex.fitting.listeners import Cursor, FitListener
from matex.fitting.stragglers import Stragglers
from matex.records.step_report import StepReport
from matex.run.context import RunContext

__all__ = ["ReplicaCheck", "interval", "majority"]

# Fraction of the time of a step, for hashing and gathering.
_PART = 0.002
_FIRST, _LEAST, _MOST = 64, 16, 100_000

_CONSEQUENCES = {
    "warn": "",
    "evict": ": it is left behind",
    "balance": ": from now on batches are shared by speed",
}


class Measured(NamedTuple):
    """Times that each rank reports beside its hash, in microseconds.

    ``busy_us`` is the median over the steps since the last comparison: a rank that the system
    delayed in a few of them is not slow.
    """

    check_us: int
    step_us: int
    busy_us: int


def interval(rows: Sequence[Measured]) -> int:
    """Number of steps between two comparisons, so that they cost 0.2 % of the time. Pure."""
    cost, step = max(row.check_us for row in rows), min(row.step_us for row in rows)
    return min(_MOST, max(_LEAST, math.ceil(cost / (_PART * max(1, step)))))


def majority(ranks: Sequence[int], hashes: Sequence[int]) -> tuple[int, ...]:
    """Ranks that hold the most frequent hash, if they are more than half; else none. Pure."""
    commonest, count = Counter(hashes).most_common(1)[0]
    if 2 * count <= len(hashes):
        return ()
    return tuple(r for r, h in zip(ranks, hashes, strict=True) if h == commonest)


class ReplicaCheck(FitListener):
    """The check of one model's replicas. :meth:`step_done` is collective when it is due.

    Args:
        every: number of steps between two checks; 0 for never, None to choose it by their cost.
        alike: whether the replicas should be equal between steps; if not, only slow ranks are
            looked for.
    """

    def __init__(
        self, run: RunContext, model: Any, *, every: int | None, alike: bool = True
    ) -> None:
        self._run = run
        self._ledger = run.records.ledger
        self._model = model
        self._every = every
        self._alike = alike
        self._wait = _FIRST if every is None else every
        self._check_s = 0.0
        self._steps = 0
        self._step_s = 0.0
        self._busy_s: list[float] = []
        self._stragglers = Stragglers()

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Compare replicas if a check is due, and after an epoch's last step.

        All ranks decide equally.

        Raises:
            ReplicasDiverged: on every rank, if no majority agrees.
        """
        if self._every == 0 or self._run.communicator.initial_size == 1:
            return
        self._steps += 1
        self._step_s += report.step_s
        self._busy_s.append(report.step_s - report.exchange_s)
        if self._steps >= self._wait or cursor.ends_epoch:
            rows = self.check(f"after step {self._ledger.step - 1}")
            self._wait = interval(rows) if self._every is None else self._every
            self._steps, self._step_s = 0, 0.0
            self._busy_s.clear()

    @property
    def pace(self) -> tuple[int, int]:
        """Steps since the last comparison, and steps between comparisons. Equal on all ranks."""
        return self._steps, self._wait

    @pace.setter
    def pace(self, pace: tuple[int, int]) -> None:
        self._steps, self._wait = pace

    def check(self, when: str) -> list[Measured]:
        """Compare, repair and look for slow ranks; return the ranks' times; collective.

        Raises:
            ReplicasDiverged: on every rank, if no majority agrees.
        """
        communicator = self._run.communicator
        started = time.perf_counter()
        mine = int(model_state.state_hash(self._model), 16) if self._alike else 0
        measured = Measured(
            check_us=int(1e6 * self._check_s),
            step_us=int(1e6 * self._step_s / self._steps),
            busy_us=int(1e6 * statistics.median(self._busy_s)),
        )
        gathered = communicator.allgather(np.array([mine, *measured], np.uint64))
        hashes: list[int] = gathered.rows[:, 0].tolist()
        self._settle(gathered.ranks, hashes, when)
        rows = [Measured(*row) for row in gathered.rows[:, 1:].tolist()]
        slow = self._stragglers.detect(gathered.ranks, [row.busy_us for row in rows])
        for rank, ratio in slow.items():
            self._act_on_slow(rank, ratio)
        self._check_s = time.perf_counter() - started
        return rows

    def compare(self, when: str, variables: Iterable[Any]) -> tuple[int, ...]:
        """Compare *variables* alone, and repair the replicas; collective.

        Returns:
            The ranks that agreed, if others did not; else none.

        Raises:
            ReplicasDiverged: on every rank, if no majority agrees.
        """
        mine = int(model_state.weights_hash(variables), 16)
        gathered = self._run.communicator.allgather(np.array([mine], np.uint64))
        return self._settle(gathered.ranks, gathered.rows[:, 0].tolist(), when)

    def _settle(self, ranks: Sequence[int], hashes: Sequence[int], when: str) -> tuple[int, ...]:
        """Repair the replicas if *hashes* differ; return the ranks that agreed then; collective."""
        if len(set(hashes)) == 1:
            return ()
        good = majority(ranks, hashes)
        if not good:
            check_hashes(ranks, hashes, when)
        self._heal(good, [rank for rank in ranks if rank not in good], when)
        return good

    def _act_on_slow(self, rank: int, ratio: float) -> None:
        """Print that *rank* is slow, and apply the policy for slow ranks. On every rank."""
        run, policy = self._run, self._run.config.straggler
        line = f"rank {rank} computes {ratio:.1f} times as long as the others"
        run.terminal.say(line + _CONSEQUENCES[policy])
        if policy == "balance":
            run.ranks.balance_from_now()
        if rank == run.communicator.world.rank:
            evict = policy == "evict"
            run.records.events.write(
                "straggler",
                step=self._ledger.step - 1,
                ratio=ratio,
                evicted=evict,
                balanced=run.ranks.balances,
            )
            if evict:
                ft.fail_stop(f"{line}: evicted")

    def _heal(self, good: Sequence[int], bad: Sequence[int], when: str) -> None:
        """Give *bad* the state of the first living one of *good*; collective."""
        run = self._run
        changed = model_state.broadcast(run.communicator, self._model, sources=good)
        if run.communicator.world.rank in bad:
            run.records.events.write(
                "healed", step=self._ledger.step - 1, source=list(good), variables=changed
            )
            run.terminal.warn(
                f"{when} differed from the other ranks in {', '.join(changed)}: healed"
            )
        names = ", ".join(map(str, bad))
        run.terminal.say(f"{when} rank {names} differed from the others and got their state")
