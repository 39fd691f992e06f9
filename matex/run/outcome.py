"""The end of a run on this rank, as far as it is known."""

from __future__ import annotations

from matex.records.summary import Stopped

__all__ = ["RunOutcome"]


class RunOutcome:
    """Facts about the end before it comes; each is set once, and stays. Local."""

    def __init__(self) -> None:
        self._stopped: Stopped | None = None
        self._is_released = False
        self._lost_strictly = False
        self._has_ended = False

    @property
    def stopped(self) -> Stopped | None:
        """Why the run ends before its script does, if so."""
        return self._stopped

    def stop(self, reason: str, *, resumable: bool) -> None:
        """Note that the run ends early, on all ranks.

        Args:
            reason: reason of the end, in words for the user.
            resumable: whether a checkpoint of this very step is there.
        """
        self._stopped = Stopped(reason=reason, resumable=resumable)

    @property
    def is_released(self) -> bool:
        """Whether this rank is a spare that the others left."""
        return self._is_released

    def release(self) -> None:
        """Note that the others left while this rank waited."""
        self._is_released = True

    @property
    def lost_strictly(self) -> bool:
        """Whether ranks were lost to errors of their own, which ``--strict`` does not forgive.

        It is known after the end.
        """
        return self._lost_strictly

    def lose_strictly(self) -> None:
        """Note that the run failed by the rule of ``--strict``."""
        self._lost_strictly = True

    def end(self) -> bool:
        """Begin the end of the run.

        Returns:
            Whether it had begun before.
        """
        before, self._has_ended = self._has_ended, True
        return before
