"""The way in which the steps of one model are made: by one exchange, or by several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from matex.exchange import Header, HostExchange
from matex.records.step_report import Interval
from matex.sources.interface import GlobalBatch
from matex.strategies import Traffic

__all__ = ["Made", "StepMaker"]


class Made(NamedTuple):
    """The exchanges of a finished step, as this rank saw them."""

    header: Header
    """Header of the last sum."""
    intervals: tuple[Interval, ...]
    traffic: Traffic

    @classmethod
    def by(cls, *exchanges: HostExchange) -> Made:
        """The newest sums of *exchanges*, in order of time."""
        return cls(
            exchanges[-1].header,
            tuple(Interval(one.ended - one.seconds, one.ended) for one in exchanges),
            Traffic(len(exchanges), sum(one.bytes for one in exchanges)),
        )

    @property
    def seconds(self) -> float:
        """Seconds in exchanges, all together."""
        return sum(end - begin for begin, end in self.intervals)


class StepMaker(Protocol):
    """Makes steps: :class:`matex.steps.single_update.SingleUpdate`, or ``SeveralUpdates``."""

    may_decline: bool
    """Whether a step can be declined."""

    @property
    def exchange(self) -> HostExchange | None:
        """The buffers, to be used again by the next fit; None where the step itself has them."""

    @property
    def made(self) -> Made:
        """The exchanges of the newest step."""

    def prepare(self, sample: Callable[[], Any]) -> None:
        """Trace now what the first steps would have others wait for. Local; changes nothing.

        Args:
            sample: function that gives a row; None where there is none before its turn.
        """

    def check_separable(self, batch: GlobalBatch) -> None:
        """Try, before the first step, whether the batch can be cut at all; collective.

        Raises:
            NotShareable: on every rank; nothing was changed, nor is it made.
        """

    def make(self, batch: GlobalBatch, *, decline: bool) -> dict[str, Any]:
        """Make the step of *batch*; collective. Its logs, when all has been brought to its end.

        Raises:
            AllStop, TrainingError: on every rank; nothing was changed.
        """
