"""Reports of finished steps: values, made by the step and read by the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import ft
from matex.partition.spans import Span, assigned, size
from matex.strategies import Traffic

__all__ = ["Interval", "Replay", "StepReport", "StepRequests", "StepTimes", "samples_of"]


@dataclass
class Replay:
    """Cost of deaths in one step, as seen from this rank.

    ``at_risk`` are the samples of the step that each lost rank (original) had to compute
    and had not handed over; ``recomputed`` is how many of them this rank computed in
    its place; ``seconds`` is from the repair to the result of the step; ``samples_lost`` and
    ``samples_repeated`` are what the step's own sum says, of all ranks.
    """

    at_risk: dict[int, int] = field(default_factory=dict)
    recomputed: int = 0
    seconds: float = 0.0
    samples_lost: int = 0
    samples_repeated: int = 0

    def __bool__(self) -> bool:
        return bool(self.at_risk)


_ADMIT, _RESIZE = 4, 8  # beyond the bits of the tiers


class Interval(NamedTuple):
    """A stretch of time, in seconds of ``time.perf_counter()``."""

    begin: float
    end: float


class StepTimes(NamedTuple):
    """The parts of a step in time: ``read`` are those in which rows were waited for or read."""

    began: float
    """The moment at which it began, in seconds of ``time.perf_counter()``."""
    read: tuple[Interval, ...] = ()
    exchanges: tuple[Interval, ...] = ()


class StepRequests(NamedTuple):
    """Requests of a rank in a step, or the agreement of all ranks by the sum of these."""

    stop: bool = False
    """Whether training is to stop after the step."""
    leave: bool = False
    """Whether to save and to leave after the step."""
    save: int = 0
    """Which tiers to save after it, bits; only the leader's word counts."""
    admit: bool = False
    """Whether to admit a newcomer after it; only the leader's word counts."""
    resize: bool = False
    """Whether to hear of a request for other ranks after it; only the leader's word counts."""

    @property
    def word(self) -> int:
        """The leader's word on tiers, admission and other ranks, in one number."""
        return self.save + _ADMIT * self.admit + _RESIZE * self.resize

    @staticmethod
    def agreed(*, stop: float, leave: float, word: float) -> StepRequests:
        """The agreement, from the sums of what the ranks wanted and the leader's word."""
        bits = int(word)
        return StepRequests(
            stop=stop > 0,
            leave=leave > 0,
            save=bits % _ADMIT,
            admit=bool(bits & _ADMIT),
            resize=bool(bits & _RESIZE),
        )


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """A finished step, as one rank saw it.

    ``samples`` are those that the step was made of, by the ranks together, of ``planned`` ones;
    ``own_samples`` how many of them this rank computed.
    ``logs`` are what Keras shows; ``replay`` is None in a step without a death; ``sent`` is
    what this rank handed to MPI; ``agreed`` what is to be done after the step; ``times`` are
    None where only the length of the step is known.
    """

    samples: int
    planned: int
    step_s: float
    exchange_s: float
    logs: Mapping[str, Any] = field(default_factory=dict)
    replay: Replay | None = None
    sent: Traffic = field(default_factory=Traffic)
    agreed: StepRequests = field(default_factory=StepRequests)
    own_samples: int = 0
    times: StepTimes | None = None


def samples_of(
    rank: int,
    span: Span,
    pending: ft.Pending,
    speeds: Mapping[int, float] = MappingProxyType({}),
    workers: int = 0,
) -> int:
    """Number of samples of *span* that fall to *rank*, an expected one, dead by now or not.

    By *speeds* and *workers*, see :func:`matex.partition.spans.assigned`.
    """
    if rank not in pending.expected:
        return 0
    lost = tuple(r for r in pending.lost if r != rank)
    return size(assigned(span, pending.expected, lost, rank, speeds, workers))
