"""The launcher's watch over ranks that have not met.

All ranks wait in MPI_Init for each other, also for one that has died on the way there, such as in
its imports: neither Open MPI nor a rank notices that. Once they have met, ULFM does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matex.launcher.patience import AwakeClock
from matex.launcher.starting_ranks import StartingRanks

__all__ = ["GRACE_S", "Rendezvous"]

#: Ranks that had all entered MPI_Init when one died leave it, and the first says so, within this.
GRACE_S = 3.0

_LOOK_S = 0.5
# A rank that dies before it was seen is missed late, or not at all.
_QUICK_LOOK_S = 0.1

# Ranks that a message names.
_NAMED = 8


class Rendezvous:
    """The ranks of one start until they have met.

    A rank that is alive is not named, however long it takes.

    Args:
        starting: the ranks, as they are seen from here.
        ranks: the number of ranks.
        clock: seconds, of which only differences count; an :class:`AwakeClock` by default.
    """

    def __init__(
        self, starting: StartingRanks, ranks: int, clock: Callable[[], float] | None = None
    ) -> None:
        self._starting = starting
        self._ranks = ranks
        self._clock = clock or AwakeClock()
        self._is_over = False
        self._seen = 0
        self._seen_since = self._clock()
        self._gone_since: float | None = None

    @property
    def look_s(self) -> float:
        """Seconds until the next look."""
        whole = self._is_over or self._seen == self._ranks
        return _LOOK_S if whole else _QUICK_LOOK_S

    @property
    def is_over(self) -> bool:
        """Whether the ranks have met, as the last call of :meth:`missed` has seen it."""
        return self._is_over

    def missed(self) -> str:
        """Reason for which the ranks cannot meet; "" as long as they can. Called repeatedly."""
        if self._is_over:
            return ""
        # Deaths first: a rank that ends after the meeting is then not seen to end before it.
        now = self._clock()
        seen = self._starting.seen()
        if len(seen) > self._seen:
            self._seen, self._seen_since = len(seen), now
        gone = sorted(self._starting.gone())
        self._is_over = self._starting.have_met()
        if self._is_over:
            return ""
        if gone and self._gone_since is None:
            self._gone_since = now
        unseen = [rank for rank in range(self._ranks) if rank not in seen]
        if self._gone_since is not None and now - self._gone_since >= GRACE_S:
            named = _listed([f"rank {rank} ({seen[rank]})" for rank in gone])
            return f"{named} ended before the ranks had met (killed by the system, out of memory?)"
        if seen and unseen and now - self._seen_since >= self._starting.unseen_s:
            named = _listed([f"rank {rank}" for rank in unseen])
            after = f"{self._starting.unseen_s:.0f} s after the others"
            return f"{named} had not started {after} (what its host lacks may be in the output)"
        return ""


def _listed(names: Sequence[str]) -> str:
    """The first of *names*, and how many more there are. Pure."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
