"""Hooks of a program into the repairs of its communicator."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ft.quorum import Parting, Ruling, no_arbiter
from ft.records import Recovery

__all__ = ["Hooks"]


class Hooks:
    """Functions that a communicator calls on this rank; a subclass overrides what it needs.

    All are local: none may communicate with other ranks. They are given to
    :meth:`ft.Communicator.start`, or, where they need the communicator themselves, to
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
        """Context of every stretch in which this rank waits for others.

        Returns:
            A new context manager; :meth:`ft.Watchdog.waiting` gives one that fits.
        """
        return nullcontext()

    def before_recovery(self) -> None:
        """End this rank instead of repairing, where the others have given it up.

        :meth:`ft.Watchdog.end_if_woken` fits.
        """

    def recovery_point(self) -> None:
        """Do what fault injection does inside each repair, between its two agreements."""

    def recovered(self, recovery: Recovery) -> None:
        """Hear of a view change: one after a failure, or one that changed the members.

        Args:
            recovery: view change and its times, equal on all members but for the times and
                ``finished``.
        """

    def decide(self, parting: Parting) -> Ruling:
        """Answer as arbiter, on one rank, whether those present may go on; it may take seconds.

        It is asked only where ranks are on several hosts and those who came to a repair are half
        of the last world or less, see :mod:`ft.quorum`.

        Args:
            parting: ranks that came, that are known to be dead, and of which nothing is known.

        Returns:
            Whether they may go on, and who of the unknown ranks has ended.
        """
        return no_arbiter(parting)
