"""The launcher's watch over ranks on this host that have not met.

All ranks wait in MPI_Init for each other, also for one that has died on the way there, such as in
its imports: neither Open MPI nor a rank notices that. Once they have met, ULFM does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matex.launcher.patience import AwakeClock
from matex.launcher.rank_processes import is_gone
from matex.records.starting_file import are_starting

__all__ = ["GRACE_S", "UNSEEN_S", "Meeting"]

#: Ranks that had all entered MPI_Init when one died leave it, and the first says so, within this.
GRACE_S = 3.0
#: mpiexec starts the ranks of a host one right after the other.
UNSEEN_S = 30.0

_LOOK_S = 0.5
# A rank that dies before it was seen is missed only after UNSEEN_S.
_QUICK_LOOK_S = 0.1


class Meeting:
    """The ranks of one start until they have met.

    A rank that is alive is not blamed, however long it takes.

    Args:
        report: the directory in which :func:`matex.records.starting_file.announce` said that they
            start; where it did not, nobody is ever missed.
        ranks: the number of ranks.
        find: function that returns the process of each rank on this host that it sees.
        clock: seconds, of which only differences count; an :class:`AwakeClock` by default.
    """

    def __init__(
        self,
        report: Path,
        ranks: int,
        find: Callable[[], Mapping[int, int]],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._report = report
        self._ranks = ranks
        self._find = find
        self._clock = clock or AwakeClock()
        self._is_over = False
        self._seen: dict[int, int] = {}
        self._seen_since = self._clock()
        self._gone_since: float | None = None

    @property
    def look_s(self) -> float:
        """Seconds until the next look."""
        whole = self._is_over or len(self._seen) == self._ranks
        return _LOOK_S if whole else _QUICK_LOOK_S

    def missed(self) -> str:
        """Reason for which the ranks cannot meet; "" as long as they can. Called repeatedly."""
        if self._is_over:
            return ""
        # Processes first: one that ends after the meeting is then not seen to end before it.
        now = self._clock()
        if len(self._seen) < self._ranks:
            new = {rank: pid for rank, pid in self._find().items() if rank not in self._seen}
            self._seen |= new
            self._seen_since = now if new else self._seen_since
        gone = {rank: pid for rank, pid in sorted(self._seen.items()) if is_gone(pid)}
        self._is_over = not are_starting(self._report)
        if self._is_over:
            return ""
        if gone and self._gone_since is None:
            self._gone_since = now
        unseen = [rank for rank in range(self._ranks) if rank not in self._seen]
        if self._gone_since is not None and now - self._gone_since >= GRACE_S:
            named = [f"rank {rank} (process {pid})" for rank, pid in gone.items()]
        elif self._seen and unseen and now - self._seen_since >= UNSEEN_S:
            named = [f"rank {rank}" for rank in unseen]
        else:
            return ""
        return (
            f"{', '.join(named)} ended before the ranks had met "
            "(killed by the system, out of memory?)"
        )
