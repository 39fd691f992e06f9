"""Shares of the batch by the measured speed of the ranks."""

from __future__ import annotations

import numpy as np

from matex.fitting.listeners import Cursor, FitListener
from matex.partition.balance import EVERY, adopted, smoothed, speed
from matex.partition.spans import parts_of
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.steps.engine import StepEngine

__all__ = ["Balancer"]

# The first steps of a training include tracing.
_TRACED = 2


class Balancer(FitListener):
    """Measures every rank's speed, and gives slow ranks fewer samples of each step.

    It does so while the run balances. The gradient stays that of the whole batch: contributions are
    weighted by samples.

    Args:
        run: ranks and events; each change is an event.
        engine: maker of the steps.
    """

    def __init__(self, run: RunContext, engine: StepEngine) -> None:
        self._communicator = run.communicator
        self._ranks = run.ranks
        self._records = run.records
        self._engine = engine
        self._own: list[tuple[int, float]] = []
        self._measured: dict[int, float] = {}
        self._adopted: dict[int, float] = {}
        self._steps = 0
        self._batch = 0

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Measure, and balance if it is time; collective in each tenth step.

        All ranks decide equally.
        """
        if not self._ranks.balances:
            return
        self._steps += 1
        self._batch = max(self._batch, report.planned)
        if self._steps > _TRACED and report.death_cost is None and report.own_samples:
            # A rank waits for other ranks inside the exchange.
            busy_s = max(1e-9, report.step_s - report.exchange_s)
            self._own.append((report.own_samples, busy_s))
        if self._steps % EVERY or self._communicator.initial_size == 1:
            return
        mine = np.array([speed(self._own) if self._own else 0.0])
        gathered = self._communicator.allgather(mine)
        self._own = []
        found = zip(gathered.ranks, gathered.rows[:, 0].tolist(), strict=True)
        known = self._measured
        self._measured = {
            rank: smoothed(known.get(rank), now) for rank, now in found if now or rank in known
        }
        if set(self._measured) == set(gathered.ranks) and self._adopt():
            self._engine.set_speeds(self._adopted)
            if self._communicator.world.is_leader:
                shares = self._shares(self._adopted)
                step = self._records.ledger.step - 1
                self._records.events.write("balance", step=step, shares=shares)

    def _adopt(self) -> bool:
        """Whether the speeds have changed enough for new shares; if so they are adopted."""
        ranks = sorted(self._measured)
        speeds = [self._measured[rank] for rank in ranks]
        now, wanted = self._shares(self._adopted), self._shares(self._measured)
        if self._batch < len(ranks):
            return False
        if not adopted([now[r] for r in ranks], [wanted[r] for r in ranks], speeds):
            return False
        self._adopted = dict(self._measured)
        return True

    def _shares(self, speeds: dict[int, float]) -> dict[int, int]:
        """Number of samples of a whole batch, by original rank."""
        parts = parts_of((0, self._batch), sorted(self._measured), speeds)
        return {rank: hi - lo for rank, (lo, hi) in parts.items()}
