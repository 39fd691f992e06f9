"""Trial of both plans to sum a vector between hosts, at the start of a run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import ft
from matex.exchange.route import Extent, Route
from matex.exchange.slices import Slices

__all__ = ["PlanTimes", "try_out"]

# Numbers of float32 elements. A larger vector is tried only if this one takes no longer than
# _QUICK_S: latency dominates small sums, and large sums take most of the time.
_SIZES = (1 << 16, 1 << 18, 1 << 20)
_QUICK_S = 0.1
_ROUNDS = 3

# Slices can be sent while gradients are computed, which a trial does not show.
_CLEARLY = 0.8


class PlanTimes(NamedTuple):
    """Seconds that a sum takes on the slowest rank, equal on all ranks."""

    flat: float
    slices: float

    @property
    def prefers_flat(self) -> bool:
        """Whether one allreduce is clearly faster."""
        return self.flat < _CLEARLY * self.slices


def try_out(
    communicator: ft.Communicator, *, route_of: Callable[[ft.World], Route] = Route.of
) -> PlanTimes | None:
    """Measure sums by both plans in turn; collective.

    Args:
        communicator: communicator of the run.
        route_of: function that returns the route of slices among the members.

    Returns:
        Times; None, on all ranks, if a rank died meanwhile.
    """
    slowest = np.empty(0)
    for size in _SIZES:
        seconds = _measured(communicator, size, route_of)
        slowest = communicator.allgather(seconds).rows.max(0)
        if not slowest.max() <= _QUICK_S:
            break
    return PlanTimes(*slowest.tolist()) if np.isfinite(slowest).all() else None


def _measured(
    communicator: ft.Communicator, size: int, route_of: Callable[[ft.World], Route]
) -> np.ndarray:
    """Median seconds of each plan on this rank; NaN if a rank died. Collective."""
    send, result = np.ones(size, np.float32), np.empty(size, np.float32)
    slices = Slices(communicator, Extent.plain(size, send.dtype), route_of=route_of)
    world = communicator.world
    chunk = ft.chunk_elements(send.itemsize, world.size, hosts=world.host_count)

    def is_whole() -> bool:
        return bool(result[0] == result[-1] == communicator.world.size)

    def flat() -> None:
        communicator.allreduce(send, result, valid=is_whole, chunk=chunk)

    def sliced() -> None:
        communicator.attempt(result, lambda comm: slices.exchange(comm, send, result), is_whole)

    taken: list[list[float]] = []
    try:
        for _ in range(1 + _ROUNDS):
            taken.append([_timed(way) for way in (flat, sliced)])
    except ft.PeerFailure:
        # A rank one operation ahead leaves the trial, too: all ranks meet after it.
        communicator.recover()
        return np.full(2, np.nan)
    return np.array([statistics.median(times) for times in zip(*taken[1:], strict=True)])


def _timed(make: Callable[[], None]) -> float:
    started = time.perf_counter()
    make()
    return time.perf_counter() - started
