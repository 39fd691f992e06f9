"""Shares of the global batch by measured speed. Pure.

Gradients are weighted by samples, so unequal shares do not change the result. Times must be of
the computation alone, without waiting for other ranks and without tracing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

__all__ = ["EVERY", "adopted", "shares", "smoothed", "speed"]

EVERY = 10
_MEMORY = 0.7
_GAIN = 1.05


def speed(steps: Sequence[tuple[int, float]]) -> float:
    """Samples per second of a rank: the median over *steps* of (samples, seconds of computing)."""
    return median(samples / seconds for samples, seconds in steps)


def smoothed(before: float | None, now: float) -> float:
    """Exponential average: three measurements change most of it."""
    return now if before is None else _MEMORY * before + (1 - _MEMORY) * now


def shares(total: int, speeds: Sequence[float], *, quantum: int = 1) -> list[int]:
    """*total* samples divided by *speeds*: at least one each, the rest by largest remainders.

    Args:
        quantum: shares are multiples of it, except that the fastest rank takes the rest; 1 if
            *total* is too small for multiples.

    Raises:
        ValueError: fewer samples than ranks.
    """
    if total < len(speeds):
        raise ValueError(
            f"a batch must have a sample for each rank. Received: {total} for {len(speeds)}"
        )
    if total < 2 * quantum * len(speeds):
        quantum = 1
    units, rest = divmod(total, quantum)
    exact = [units * s / sum(speeds) for s in speeds]
    given = [int(e) for e in exact]
    order = sorted(range(len(speeds)), key=lambda i: (given[i] - exact[i], i))
    for i in order[: units - sum(given)]:
        given[i] += 1
    while min(given) < 1:
        given[given.index(max(given))] -= 1
        given[given.index(min(given))] += 1
    result = [quantum * g for g in given]
    result[max(range(len(speeds)), key=lambda i: speeds[i])] += rest
    return result


def adopted(now: Sequence[int], wanted: Sequence[int], speeds: Sequence[float]) -> bool:
    """Whether *wanted* makes a step faster than *now* by enough for a change."""

    def step_s(given: Sequence[int]) -> float:
        return max(b / s for b, s in zip(given, speeds, strict=True))

    return step_s(now) > _GAIN * step_s(wanted)
