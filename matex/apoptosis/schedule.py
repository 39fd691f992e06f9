"""The schedule of events, and the limits of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = ["LESS", "MODES", "MORE", "EventSchedule", "Mode", "Thresholds", "held_out_rows"]


class Mode(NamedTuple):
    """The pace of shrinking: an event removes at most ``fraction`` of a group, costing ``tau``.

    ``adapts``: tau follows the held-out loss of each event.
    """

    fraction: float
    tau: float
    adapts: bool = False


MODES = {
    "conservative": Mode(0.10, 0.002),
    "natural": Mode(1.0, 0.01),
    "aggressive": Mode(0.5, 0.05),
    "adaptive": Mode(0.5, 0.01, adapts=True),
}

_MOST_TAU = 0.05

# Parts of a threshold at which less and more than it allows is tried.
LESS, MORE = 1 / 3, 3.0

# With fewer rows the loss says too little, whatever they cost.
_LEAST_ROWS = 512

# FLOPs of a forward pass, as a multiple of n^3, that take as long as measuring and deciding about n
# units: these are less than half as many, in float64 and in pieces.
_DECIDING = 30

# After an event that shrank the network by this fraction the next one follows after one epoch, else
# after this many; the step is traced again after each.
_MUCH, _WAIT = 0.3, 2

# A network with fewer FLOPs per row takes TensorFlow about as long for any widths.
_LIGHT = 1.5e5

# A group that would lose less is left: shrinking it costs more than it brings.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Thresholds:
    """Threshold tau of each group by name, as adapted to the held-out loss."""

    mode: Mode
    taus: dict[str, float] = field(default_factory=dict)

    def tau(self, group: str) -> float:
        return self.taus.get(group, self.mode.tau)

    def after(self, group: str, *, part: float, kept: bool) -> Thresholds:
        """The thresholds after an event that was kept, or refused, for *group* at this *part*."""
        if not self.mode.adapts:
            return self
        tau = part * self.tau(group)
        if not kept:
            tau *= LESS
        elif part >= 1:
            tau = min(_MOST_TAU, 1.5 * tau)
        return replace(self, taus={**self.taus, group: tau})


@dataclass(frozen=True)
class EventSchedule:
    """Schedule of events at ends of epochs, counted from 1: from ``first`` to ``last``.

    Every ``every`` epochs; or, where that is 0, one after another while they bring much, and
    then every second epoch, as long as a smaller network is a faster one.
    """

    first: int
    last: int
    every: int = 0
    wait: int = 0
    due: int = 0

    def is_due(self, epoch: int) -> bool:
        return max(self.first, self.due) <= epoch <= self.last

    @property
    def is_over(self) -> bool:
        """Whether there will be no more events, although epochs for them remain."""
        return not self.every and self.wait > _WAIT

    def from_epoch(self, epoch: int) -> EventSchedule:
        """Schedule of a fit that begins after *epoch*: one that starts over does not wait."""
        return self if self.due <= epoch + self.wait else replace(self, due=0)

    def after(self, epoch: int, *, gone: float, flops: float) -> EventSchedule:
        """The schedule after an event at the end of *epoch*.

        Args:
            gone: fraction of the parameters that was removed.
            flops: operations of the smaller network per row; infinite if size itself is the goal.
        """
        wait = self.every
        if not wait and gone >= _MUCH:
            wait = 1
        elif not wait:
            wait = _WAIT if flops >= _LIGHT else max(1, self.last + 1 - epoch)
        return replace(self, wait=wait, due=epoch + wait)


def held_out_rows(
    training: int, *, scored: int, widths: Sequence[int], flops: float, limit: int
) -> int:
    """Number of held-out rows for the loss, so that an event costs a fifth of an epoch. Pure.

    An epoch over *training* rows costs three forward passes of them. An event costs one pass over
    the *scored* rows, the decisions, and, over the held-out rows, one pass before, one with all
    groups, one with fewer removals and mostly one with each group.

    Args:
        widths: units of each group.
        flops: floating-point operations of a forward pass of one row.
    """
    deciding = _DECIDING * sum(float(width) ** 3 for width in widths) / max(flops, 1.0)
    affordable = (0.6 * training - scored - deciding) / (len(widths) + 3)
    return int(max(_LEAST_ROWS, min(limit, affordable)))
