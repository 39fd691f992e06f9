"""Interfaces that a step needs: services of the run, and the source of its data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import ft
from matex.exchange import GraphExchange, Layout
from matex.records.step_report import StepRequests
from matex.steps.nonfinite import NonfinitePolicy

__all__ = ["StepServices", "StepSource", "VacantPlaces"]


class StepServices(Protocol):
    """The run, as used by its steps: :class:`matex.run.run_steps.RunSteps`."""

    @property
    def communicator(self) -> ft.Communicator:
        """Communicator of the run."""

    @property
    def faults(self) -> ft.Injector:
        """Fault injector of the run."""

    @property
    def step(self) -> int:
        """Number of the running step of the run; between two steps, of the next one."""

    @property
    def nonfinite(self) -> NonfinitePolicy:
        """Policy for steps with non-finite numbers."""

    @property
    def virtual_workers(self) -> int:
        """Number of virtual workers that share each batch; 0 if ranks share it."""

    def make_exchange(self, layout: Layout, check_finite: bool) -> GraphExchange:
        """Make the exchange of steps with *layout*; local.

        Args:
            check_finite: whether it checks for NaN and infinity.
        """

    def requests(self) -> StepRequests:
        """Requests of this rank that travel with the next step; local."""

    def around_step(self) -> AbstractContextManager[None]:
        """Context of the making of a step, which must not take too long without progress."""


class StepSource(Protocol):
    """Data as used by a step: a part of :class:`matex.sources.interface.Source`."""

    @property
    def signature(self) -> Any:
        """Structure of ``tf.TensorSpec`` with a free batch dimension."""

    @property
    def explanation(self) -> str:
        """Reason for which a step may consist of other samples than its own."""

    @property
    def most_rows(self) -> int | None:
        """Largest number of rows of a global batch; None if unknown."""

    @property
    def as_data(self) -> Callable[[Any], Any]:
        """Function from a batch of the form of ``signature`` to the argument of ``train_step``."""

    def sample(self) -> Any:
        """A row in the form of ``signature``; None if no row is available yet."""

    def after_step(self, step: int) -> tuple[int, int]:
        """Advance after step number *step*; return the messages and bytes that this rank sent."""


class VacantPlaces(Protocol):
    """Places of dead ranks, which spares may take: :class:`matex.fitting.joining.spares`."""

    def fill(self, recovery: ft.Recovery | None) -> None:
        """Let spares start in the running step; collective if a place is vacant.

        Args:
            recovery: recovery that interrupted the step, possibly with spares; None if none did.
        """
