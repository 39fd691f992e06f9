"""Hooks of a run, called at the repairs of its communicator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import ft
from matex.run.launcher_client import LauncherClient

__all__ = ["RunHooks"]


class RunHooks(ft.Hooks):
    """Calls watchdog, injector, launcher and record of a run at each repair. Local.

    Args:
        watchdog: watchdog that times this rank's waits, and ends the rank if other ranks have gone
            on without it.
        faults: injector that may strike inside a repair.
        launcher: arbiter for cut networks, which is told who goes on; None without one.
        record: function of each recovery, called after the launcher was told.
    """

    def __init__(
        self,
        watchdog: ft.Watchdog,
        faults: ft.Injector,
        launcher: LauncherClient | None,
        *,
        record: Callable[[ft.Recovery], None],
    ) -> None:
        self._watchdog = watchdog
        self._faults = faults
        self._launcher = launcher
        self._record = record

    def waiting(self) -> AbstractContextManager[object]:
        """Context in which this rank, and so the watchdog, waits for other ranks."""
        return self._watchdog.waiting()

    def before_recovery(self) -> None:
        """End this rank if it was stopped so long that the others gave it up."""
        self._watchdog.end_if_woken()

    def recovery_point(self) -> None:
        """Strike with faults at ``at=recovery``; other ranks wait for this one meanwhile."""
        with self._watchdog.busy():
            self._faults.at("recovery")

    def recovered(self, recovery: ft.Recovery) -> None:
        """Tell the launcher, then record the recovery."""
        if self._launcher is not None:
            self._launcher.report(recovery)
        self._record(recovery)

    def decide(self, split: ft.NetworkSplit) -> ft.Ruling:
        """Ruling of the launcher whether the present ranks go on; see :meth:`ft.Hooks.decide`."""
        return super().decide(split) if self._launcher is None else self._launcher.decide(split)
