"""The last known state of each rank, and the rank for which others wait. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["RankState", "RankView", "become", "lose", "part_with", "slowest"]

# The slowest rank is named if it computes this many times as long as the others.
_BEHIND = 1.5


class RankState(Enum):
    """State of a rank, by the word that is shown."""

    STARTED = "started"
    TRAINING = "training"
    SPARE = "spare"
    DEAD = "dead"
    LEFT = "left"
    GONE = "gone"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def lives(self) -> bool:
        """Whether a rank in this state takes part in the run."""
        return self in (RankState.STARTED, RankState.TRAINING, RankState.SPARE)

    @property
    def is_away(self) -> bool:
        """Whether the others went on without a rank in this state."""
        return self in (RankState.DEAD, RankState.LEFT)


@dataclass(kw_only=True)
class RankView:
    """A rank of the run, by its events.

    Args:
        rank: original rank.
        host: host name.
        pid: process id on that host.
        started_s: Unix time of its start, seconds.
        state: state in the run.
        why: reason for its death; "" while it lives or if unknown.
        step: number of steps done, as last reported; None before the first report.
        step_s: mean duration of its latest steps, seconds.
        exchange_s: mean duration of their exchanges, which include waiting, seconds.
        memory: memory as last reported, bytes.
    """

    rank: int
    host: str
    pid: int
    started_s: float
    state: RankState = RankState.STARTED
    why: str = ""
    step: int | None = None
    step_s: float | None = None
    exchange_s: float | None = None
    memory: int | None = None

    @property
    def busy_s(self) -> float | None:
        """Mean computing time per step, seconds; the rank waits for the rest of the step."""
        if self.step_s is None or self.exchange_s is None:
            return None
        return max(0.0, self.step_s - self.exchange_s)

    def waits_s(self, shortest_s: float) -> float | None:
        """Mean time per step in which the rank waits for slower ranks, seconds.

        Args:
            shortest_s: seconds of the exchange on the rank that waits for none.
        """
        return None if self.exchange_s is None else max(0.0, self.exchange_s - shortest_s)


def become(ranks: Mapping[int, RankView], rank: int, state: RankState) -> None:
    """Give *rank* the *state* if it is one of *ranks*, and lives."""
    if rank in ranks and ranks[rank].state.lives:
        ranks[rank].state = state


def lose(ranks: Mapping[int, RankView], lost: Iterable[int], why: str = "") -> None:
    """Note that the *lost* ones of *ranks* are dead, and *why* if nothing was said before."""
    for rank in set(lost) & set(ranks):
        view = ranks[rank]
        view.state = RankState.DEAD
        view.why = view.why or why


def part_with(ranks: Mapping[int, RankView], left: Iterable[int], step: int | None) -> None:
    """Note that some of *ranks* have *left* on request, before *step*."""
    for rank in set(left) & set(ranks):
        become(ranks, rank, RankState.LEFT)
        ranks[rank].step = step


def slowest(ranks: Iterable[RankView]) -> RankView | None:
    """Rank of *ranks* for which the others wait; None if all compute about as long."""
    measured = [(view.busy_s, view.rank, view) for view in ranks if view.busy_s is not None]
    if len(measured) < 2:
        return None
    *others, (longest_s, _, last) = sorted(measured, key=lambda found: found[:2])
    usual_s = statistics.median(busy_s for busy_s, _, _ in others)
    return last if longest_s > _BEHIND * usual_s else None
