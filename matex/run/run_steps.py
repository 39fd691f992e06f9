"""Services of a run for its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import ft
from matex.exchange import ExchangeFactory, GraphExchange, Layout
from matex.records.step_report import StepReport, StepRequests
from matex.run.ranks import RunRanks
from matex.run.records import RunRecords
from matex.run.step_watch import StepWatch
from matex.steps.nonfinite import NonfinitePolicy

__all__ = ["RunSteps"]


class RunSteps:
    """The :class:`matex.steps.services.StepServices` of all steps of a run.

    Args:
        communicator, ranks, records: ranks and records of the run.
        watch: watchdog over the steps.
        faults: fault injector of the run.
        nonfinite: policy for steps with non-finite numbers.
        exchange_factory: maker of the exchanges of this rank.
        requests: function that returns the requests of this rank.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        ranks: RunRanks,
        records: RunRecords,
        watch: StepWatch,
        *,
        faults: ft.Injector,
        nonfinite: NonfinitePolicy,
        exchange_factory: ExchangeFactory,
        requests: Callable[[], StepRequests],
    ) -> None:
        self.communicator = communicator
        self._ranks = ranks
        self._records = records
        self._watch = watch
        self.faults = faults
        self.nonfinite = nonfinite
        self.exchange_factory = exchange_factory
        self.requests = requests

    @property
    def virtual_workers(self) -> int:
        """Number of virtual workers that share each batch; 0 if ranks share it."""
        return self._ranks.virtual_workers

    @property
    def step(self) -> int:
        """Number of the next step of the run."""
        return self._records.ledger.step

    def make_exchange(self, layout: Layout, check_finite: bool) -> GraphExchange:
        """Make the exchange of steps with *layout*; local."""
        return self.exchange_factory.make(
            self.communicator, layout, faults=self.faults, watchdog=self._watch.watchdog,
            check_finite=check_finite,
        )  # fmt: skip

    def around_step(self) -> AbstractContextManager[None]:
        """Context of the making of a step, which must not take too long without progress."""
        return self._watch.around_step()

    def step_done(self, report: StepReport, *, model: Any = None) -> None:
        """Count and record a finished step; local.

        Args:
            model: model whose state is hashed after a recovery; None by default.
        """
        self._records.step_done(report, model)
        self._watch.step_done()
