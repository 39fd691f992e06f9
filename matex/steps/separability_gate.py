"""Gate before a step: a batch that cannot be divided among ranks does not pass."""

from __future__ import annotations

import ft
from matex.sources.interface import GlobalBatch
from matex.steps.executors.executor import StepExecutor
from matex.steps.executors.step_context import StepContext
from matex.steps.separability.comparison import agree_separable
from matex.steps.separability.repeated_check import find_again, is_due
from matex.steps.traced_step import AnyStep

__all__ = ["SeparabilityGate"]


class SeparabilityGate:
    """Separability checks of the steps of a fit, on this rank.

    Args:
        communicator: ranks of the run.
        context: context of the steps.
        may_check_again: whether a later step may be refused, too.
    """

    def __init__(
        self, communicator: ft.Communicator, context: StepContext, *, may_check_again: bool
    ) -> None:
        self._communicator = communicator
        self._account, self._header = context.account, context.header
        self._may_check_again = may_check_again

    def check(self, step: AnyStep, executor: StepExecutor, batch: GlobalBatch) -> None:
        """Check that *batch* can be divided, before the first step and again before some others.

        Collective before the first step, and once a repeated check has failed on any rank.

        Raises:
            NotShareable: on every rank.
        """
        checks = step.checks
        if checks.is_refuted:
            agree_separable(self._communicator, checks.found, refuted=True)
        if not checks.is_made:
            executor.check_separable(batch)
            checks.is_made = True
        elif self._may_check_again and is_due(checks.steps):
            own = self._account.assigned()
            if found := find_again(batch, own, executor.find_inseparable):
                checks.found = (
                    f"{found}; it was found after {checks.steps} steps, and sums of earlier ones "
                    "may be wrong by it"
                )
        self._header.found_inseparable = bool(checks.found)
        checks.steps += 1
