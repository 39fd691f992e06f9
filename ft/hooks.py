"""Functions of a program that its communicator calls at repairs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ft.quorum import NetworkSplit, Ruling, no_arbiter
from ft.records import Recovery

__all__ = ["Hooks"]


class Hooks:
    """Functions that a communicator calls on this rank; a subclass overrides some of them.

    All are local: none may communicate with other ranks. They are given to
    :meth:`ft.Communicator.start` or, if they need the communicator themselves, to
    :meth:`ft.Communicator.attach`.

    Example:
        >>> class Watched(ft.Hooks):
        ...     def __init__(self, watchdog):
        ...         self.watchdog = watchdog
        ...
        ...     def waiting(self):
        ...         return self.watchdog.waiting()
        ...
        ...     def recovered(self, recovery):
        ...         print("lost", [member.rank for member in recovery.lost])
        >>> hooks = Watched(ft.Watchdog(timeout_s=60.0))
        >>> with hooks.waiting():
        ...     pass  # a collective
    """

    def waiting(self) -> AbstractContextManager[object]:
        """Context of each period in which this rank waits for other ranks.

        Returns:
            A new context manager, such as :meth:`ft.Watchdog.waiting`.
        """
        return nullcontext()

    def before_recovery(self) -> None:
        """End this rank instead of repairing, if the other ranks have given it up.

        :meth:`ft.Watchdog.end_if_woken` does this.
        """

    def recovery_point(self) -> None:
        """Strike with injected faults inside each repair, between its two agreements."""

    def recovered(self, recovery: Recovery) -> None:
        """Handle a view change after a failure, or one that changed the members.

        Args:
            recovery: the view change, equal on all members but for its times and ``finished``.
        """

    def decide(self, split: NetworkSplit) -> Ruling:
        """Decide as arbiter, on one rank, whether the present ranks may go on; it may take seconds.

        It is called only if ranks are on several hosts and the ranks present at a repair are at
        most half of the last world, see :mod:`ft.quorum`.

        Args:
            split: ranks that are present, known to be dead, or unknown.

        Returns:
            Whether the present ranks may go on, and which of the unknown ranks have ended.
        """
        return no_arbiter(split)
