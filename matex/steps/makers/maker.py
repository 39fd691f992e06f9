"""Interface of the objects that make a model's steps, by one exchange or by several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from matex.exchange import GraphExchange, Header, StepExchange
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch
from matex.strategies import Traffic

__all__ = ["Made", "StepMaker"]


class Made(NamedTuple):
    """Exchanges of a finished step, as seen by this rank."""

    header: Header
    """Header of the last exchange's sum."""
    intervals: tuple[Interval, ...]
    traffic: Traffic

    @classmethod
    def by(cls, *exchanges: StepExchange) -> Made:
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


class StepMaker(Protocol):
    """Makes steps: ``SingleUpdate``, ``SeveralUpdates`` or ``VirtualUpdate``."""

    @property
    def exchange(self) -> GraphExchange | None:
        """Buffers for use by the next fit; None if the step itself has them."""

    @property
    def made(self) -> Made:
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

    def make(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        """Make the step of *batch*, with any recovery, and return its logs; collective.

        Raises:
            AllStop, TrainingError: on every rank; nothing was changed.
        """
