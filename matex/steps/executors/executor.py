"""Interface of the executors of a model's steps: one for each kind of step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from matex.exchange import GraphExchange, Header, StepExchange
from matex.exchange.traffic import Traffic
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch

__all__ = ["FinishedExchanges", "StepExecutor"]


class FinishedExchanges(NamedTuple):
    """Exchanges of a finished step, as seen by this rank."""

    header: Header
    """Header of the last exchange's sum."""
    intervals: tuple[Interval, ...]
    traffic: Traffic

    @classmethod
    def by(cls, *exchanges: StepExchange) -> FinishedExchanges:
        """Newest sums of *exchanges*, in order of time."""
        return cls(
            exchanges[-1].header,
            tuple(Interval(one.ended - one.seconds, one.ended) for one in exchanges),
            Traffic(len(exchanges), sum(one.bytes for one in exchanges)),
        )

    @property
    def seconds(self) -> float:
        """Total time in the exchanges, seconds."""
        return sum(end - begin for begin, end in self.intervals)


class StepExecutor(Protocol):
    """Executes steps: computes this rank's rows, exchanges, updates, and recovers from deaths.

    There is one for each kind of step: ``SingleUpdate``, ``SeveralUpdates`` and ``VirtualUpdate``.
    """

    @property
    def exchange(self) -> GraphExchange | None:
        """Buffers for use by the next fit; None if the step itself has them."""

    @property
    def finished(self) -> FinishedExchanges:
        """Exchanges of the newest step."""

    def prepare(self, sample: Callable[[], Any]) -> None:
        """Trace now the graphs for which other ranks would wait later. Local; changes nothing.

        Args:
            sample: function that returns a row, or None if no row is available yet.
        """

    def check_separable(self, batch: GlobalBatch) -> None:
        """Check, before the first step, whether the batch can be divided; collective.

        Raises:
            NotShareable: on every rank; nothing was changed, and the step is not made.
        """

    def find_inseparable(self, rows: Any) -> str:
        """Name what does not add up over *rows* with the current weights; "" if nothing. Local.

        Nothing is changed. Only for a step that was checked before its first use.
        """

    def execute(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        """Execute the step of *batch*, with any recovery, and return its logs; collective.

        Raises:
            StepDeclined, TrainingError: on every rank; nothing was changed.
        """
