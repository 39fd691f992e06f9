"""Exits of ranks before the end of the script.

A preempted rank leaves with status 75 (EX_TEMPFAIL of sysexits.h), by which a job script knows that
it may put itself back into the queue.
"""

from __future__ import annotations

__all__ = ["STATUS", "PreemptedExit", "SpareReleased"]

STATUS = 75


class PreemptedExit(SystemExit):
    """Raised on every rank after the same step, once the checkpoint is safe.

    A SystemExit, so that no ``except Exception`` in a script takes it for an error of its own.

    Args:
        resumable: whether there is a checkpoint: then the status is `STATUS`, else 1.
    """

    def __init__(self, *, resumable: bool) -> None:
        super().__init__(STATUS if resumable else 1)


class SpareReleased(SystemExit):
    """Raised on a spare when the others leave: the script does not continue here."""

    def __init__(self) -> None:
        super().__init__(0)
