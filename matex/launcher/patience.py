"""Limits on the launcher's wait for silent ranks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from matex.records.launcher_protocol.heartbeat_file import Sign, read_sign
from matex.records.summary import SUMMARY
from matex.run.timeouts import WORK_S

__all__ = [
    "LEAVE_S", "SPLIT_S", "AwakeClock", "Patience", "Quiet", "has_summary", "signs_in",
]  # fmt: skip

#: Limit after ranks on several hosts have lost each other, when the remaining ones give a sign of
#: life each second; or after all have ended the script, and only leave.
SPLIT_S = 40.0
#: The ranks that are left have only to leave MPI.
LEAVE_S = 10.0
# Starting Python and TensorFlow on all ranks, on a slow file system, takes its time.
_START_S = 600.0


# Longer than from one look to the next, on a busy host, too.
_MOST_S = 5.0


class AwakeClock:
    """Clock of the time in which this process was running. Local.

    While its system stood still, such as a migrated virtual machine, the ranks had no time to give
    a sign either. It is called repeatedly: the time between two calls counts for 5 s at most.

    Args:
        clock: seconds, of which only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._seconds = 0.0

    def __call__(self) -> float:
        now = self._clock()
        self._seconds += min(now - self._last, _MOST_S)
        self._last = now
        return self._seconds


class Patience:
    """The launcher's time limits for one start of the ranks, counted from the construction.

    Args:
        report: the directory in which the ranks give signs of life.
        limit_s: longest time without a sign of life, seconds; None for 600 s.
        clock: seconds, of which only differences count; an :class:`AwakeClock` by default.
    """

    def __init__(
        self, report: Path, limit_s: float | None, clock: Callable[[], float] | None = None
    ) -> None:
        self._report = report
        self._clock = clock or AwakeClock()
        self._seen, self._since = Sign(), self._clock()
        self._over_since: float | None = None
        self._leave_s = SPLIT_S
        self._patience_s = limit_s or WORK_S
        self._limit_s = max(self._patience_s, _START_S)

    def is_over(self, is_left: Callable[[], bool]) -> bool:
        """Whether a job with newcomers is over, although mpiexec does not end then.

        Processes that were started and never joined may be left for some time.

        Args:
            is_left: tells whether mpiexec is the only process of the job.
        """
        if not has_summary(self._report):
            return False
        if self._over_since is None:
            self._over_since = self._clock()
        return is_left() or self._clock() - self._over_since > LEAVE_S

    def ends(self, *, several: bool, split: bool) -> str:
        """Reason for which the launcher waits no longer; "" while it waits.

        With a summary there is nothing more to wait for but the ranks' end: where a host that the
        others went on without cannot be reached, mpiexec waits for that for ever, and its ranks may
        give signs of life meanwhile.

        Args:
            several: the ranks are on several hosts.
            split: whether ranks on different hosts have lost each other.
        """
        if several and has_summary(self._report):
            if self._over_since is None:
                self._over_since = self._clock()
                self._leave_s = LEAVE_S if _has_lost_ranks(self._report) else SPLIT_S
            over = self._clock() - self._over_since > self._leave_s
            return f"no end of all ranks {self._leave_s:.0f} s after the summary" if over else ""
        sign = read_sign(self._report)
        if sign != self._seen:
            self._seen, self._since = sign, self._clock()
            self._limit_s = self._patience_s
        if split:
            self._limit_s = min(self._limit_s, SPLIT_S)
        if self._clock() - self._since <= self._limit_s:
            return ""
        return f"no sign of life for {self._limit_s:.0f} s"


class Quiet:
    """Check that files have shown no sign of life for *for_s* seconds, counted from now.

    Args:
        look: function whose result changes while any process writes.
        clock: seconds, of which only differences count; an :class:`AwakeClock` by default.
    """

    def __init__(
        self,
        look: Callable[[], object],
        for_s: float = SPLIT_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._look = look
        self._for_s = for_s
        self._clock = clock or AwakeClock()
        self._seen, self._since = look(), self._clock()

    def reached(self) -> bool:
        """Whether the time has passed; called repeatedly."""
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()
        return self._clock() - self._since >= self._for_s


def signs_in(report: Path, directory: Path) -> tuple[Sign, tuple[int, int] | None]:
    """The signs of life of ranks that write into both: the heartbeat, and the world at the fence.

    The latter is None where the fence cannot be read.
    """
    import checkpoints  # brings h5py, which a launcher rarely needs

    try:
        world = checkpoints.Fence(directory, lambda: (0, 0)).newest()
    except checkpoints.StorageError:
        world = None
    return read_sign(report), world


def _has_lost_ranks(report: Path) -> bool:
    """Whether ranks are missing in the end, by the summary."""
    try:
        summary = json.loads((report / SUMMARY).read_text())
        return bool(summary.get("ranks_lost") or summary.get("ranks_left"))
    except (OSError, json.JSONDecodeError):  # out of reach, or not matex's own
        return False


def has_summary(report: Path) -> bool:
    """Whether the ranks have written a summary; False if the directory cannot be read."""
    try:
        return (report / SUMMARY).exists()
    except OSError:  # a network file system that does not answer
        return False
