"""Objects that the executors of one engine share, whichever of them executes the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matex.steps.contribution_header import ContributionHeader
from matex.steps.executors.row_account import RowAccount
from matex.steps.executors.step_repair import StepRepair
from matex.steps.own_rows import OwnRows
from matex.steps.row_division import RowDivision
from matex.steps.services import StepServices, StepSource

__all__ = ["StepContext"]


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Objects of a run and of its running step. One per engine.

    ``division`` says which rows this rank computes, ``rows`` reads them, ``header`` is what is told
    with their sum; ``account`` keeps which of them were computed, ``repair`` recovers from deaths.
    """

    services: StepServices
    source: StepSource
    division: RowDivision
    rows: OwnRows
    header: ContributionHeader
    account: RowAccount
    repair: StepRepair

    @classmethod
    def of(cls, services: StepServices, source: StepSource, model: Any) -> StepContext:
        """Objects for the steps of *model*. Local.

        Args:
            services: ranks, faults and watchdog of the run.
            source: source of the batches.
            model: model whose optimizer has the learning rate.
        """
        communicator = services.communicator
        division = RowDivision(communicator, workers=services.virtual_workers)
        header = ContributionHeader(services, model)
        rows = OwnRows(header)
        account = RowAccount(communicator, rows, division)
        return cls(
            services=services,
            source=source,
            division=division,
            rows=rows,
            header=header,
            account=account,
            repair=StepRepair(communicator, account),
        )
