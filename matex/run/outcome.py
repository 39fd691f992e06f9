"""The way in which the run ends on this rank, as far as known."""

from __future__ import annotations

from matex.preemption.stop_request import StopRequest
from matex.records.summary import Stopped

__all__ = ["RunOutcome"]


class RunOutcome:
    """Facts about the end, recorded before it; each is set once. Local.

    Args:
        stop_request: stop requests by signals and by the wall time, which this rank has heard.
    """

    def __init__(self, stop_request: StopRequest) -> None:
        self.stop_request = stop_request
        self._stopped: Stopped | None = None
        self._is_released = False
        self._lost_strictly = False
        self._has_ended = False

    @property
    def stopped(self) -> Stopped | None:
        """Reason for which the run ends before its script; None if it does not."""
        return self._stopped

    def stop(self, reason: str, *, resumable: bool) -> None:
        """Note that the run ends early, on all ranks.

        Args:
            reason: reason of the end, for messages.
            resumable: whether there is a checkpoint of this very step.
        """
        self._stopped = Stopped(reason=reason, resumable=resumable)

    @property
    def is_released(self) -> bool:
        """Whether this rank is a spare that the other ranks left behind."""
        return self._is_released

    def release(self) -> None:
        """Record that the other ranks left while this spare waited."""
        self._is_released = True

    @property
    def lost_strictly(self) -> bool:
        """Whether ranks were lost to script errors, which ``--strict`` does not forgive.

        Known after the end.
        """
        return self._lost_strictly

    def lose_strictly(self) -> None:
        """Note that the run failed by the rule of ``--strict``."""
        self._lost_strictly = True

    def end(self) -> bool:
        """Record that the end of the run begins.

        Returns:
            True if it had begun before.
        """
        before, self._has_ended = self._has_ended, True
        return before
