"""Reports of finished steps, made by the step and read by the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from matex.exchange.traffic import Traffic

__all__ = ["DeathCost", "Interval", "StepReport", "StepRequests", "StepTimes"]


@dataclass
class DeathCost:
    """Cost of deaths in one step, as seen from this rank.

    ``at_risk`` maps each lost rank (original) to the number of samples of the step that it had to
    compute and had not handed over; ``recomputed`` is the number of samples that this rank computed
    in place of lost ranks; ``seconds`` is from the repair to the result of the step;
    ``samples_lost`` and ``samples_repeated`` are by the step's own sum, over all ranks.
    """

    at_risk: dict[int, int] = field(default_factory=dict)
    recomputed: int = 0
    seconds: float = 0.0
    samples_lost: int = 0
    samples_repeated: int = 0

    def __bool__(self) -> bool:
        return bool(self.at_risk)


_ADMIT, _RESIZE = 4, 8  # above the bits of the tiers


class Interval(NamedTuple):
    """A time interval, in seconds of ``time.perf_counter()``."""

    begin: float
    end: float


class StepTimes(NamedTuple):
    """Times of a step; ``read`` are the intervals in which rows were awaited or read."""

    began: float
    """Start of the step, in seconds of ``time.perf_counter()``."""
    read: tuple[Interval, ...] = ()
    exchanges: tuple[Interval, ...] = ()


class StepRequests(NamedTuple):
    """Requests of a rank in a step, or the agreement of all ranks by their sum."""

    stop: bool = False
    """Whether training stops after the step."""
    leave: bool = False
    """Whether to save and leave after the step."""
    save: int = 0
    """Tiers in which to save after it, as bits; only the leader's value is used."""
    admit: bool = False
    """Whether to admit a newcomer after it; only the leader's value is used."""
    resize: bool = False
    """Whether to handle a resize request after it; only the leader's value is used."""

    @property
    def word(self) -> int:
        """The leader's values of tiers, admission and resize, in one number."""
        return self.save + _ADMIT * self.admit + _RESIZE * self.resize

    @staticmethod
    def agreed(*, stop: float, leave: float, word: float) -> StepRequests:
        """Agreement, from the sums of the ranks' requests and the leader's word."""
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
    """A finished step, as seen by one rank.

    ``samples`` is the number of samples of which the ranks made the step, ``planned`` the number
    expected; ``own_samples`` is the number that this rank computed. ``logs`` are Keras's logs;
    ``death_cost`` is None in a step without a death; ``sent`` is the traffic that this rank passed
    to MPI; ``agreed`` are the actions after the step; ``times`` are None if only the duration of
    the step is known.
    """

    samples: int
    planned: int
    step_s: float
    exchange_s: float
    logs: Mapping[str, Any] = field(default_factory=dict)
    death_cost: DeathCost | None = None
    sent: Traffic = field(default_factory=Traffic)
    agreed: StepRequests = field(default_factory=StepRequests)
    own_samples: int = 0
    times: StepTimes | None = None
