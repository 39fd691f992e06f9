"""The needs of a step: services of the run, and the data that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import ft
from matex.exchange import HostExchange, Layout
from matex.records.step_report import StepRequests
from matex.steps.nonfinite import Nonfinite

__all__ = ["OpenSlots", "StepServices", "StepSource"]


class StepServices(Protocol):
    """The run, as its steps see it: :class:`matex.run.context.RunContext`."""

    @property
    def communicator(self) -> ft.Communicator:
        """The ranks of the run."""

    @property
    def faults(self) -> ft.Injector:
        """The fault injector of the run, which also knows the number of the step."""

    @property
    def nonfinite(self) -> Nonfinite:
        """The policy for steps with numbers that are not finite."""

    @property
    def virtual_workers(self) -> int:
        """The number of virtual workers that share each batch; 0 where ranks do."""

    def make_exchange(self, layout: Layout, check_finite: bool) -> HostExchange:
        """Make the exchange of steps with *layout*; local.

        Args:
            check_finite: whether it looks for numbers that are not finite.
        """

    def requests(self) -> StepRequests:
        """The requests of this rank that go with the next step; local."""

    def around_step(self) -> AbstractContextManager[None]:
        """Surround the making of a step: it may not take too long without progress."""


class StepSource(Protocol):
    """The data, as a step sees it: a part of :class:`matex.sources.interface.Source`."""

    @property
    def signature(self) -> Any:
        """Structure of ``tf.TensorSpec`` with a free batch dimension."""

    @property
    def explanation(self) -> str:
        """Why a step may turn out to be made of other samples than its own."""

    @property
    def most_rows(self) -> int | None:
        """The largest number of rows of a global batch, where it is known beforehand."""

    @property
    def as_data(self) -> Callable[[Any], Any]:
        """Makes of a batch of the form of ``signature`` what ``train_step`` gets."""

    def sample(self) -> Any:
        """A row in the form of ``signature``; None where there is none before its turn."""

    def after_step(self, step: int) -> tuple[int, int]:
        """Go on after step number *step*: the messages and bytes that this rank sent for it."""


class OpenSlots(Protocol):
    """The places of ranks that died, which spares may take: :class:`matex.fitting.spares`."""

    def fill(self, recovery: ft.Recovery | None) -> None:
        """Let spares begin in the running step; collective where a place is open.

        Args:
            recovery: recovery that interrupted the step, if any, which may have brought some.
        """
