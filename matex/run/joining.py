"""A newcomer's way from its start to its admission by the other ranks."""

from __future__ import annotations

import contextlib
from typing import Any, NoReturn

import ft
from matex.run.welcome import DATA, FIT, FOR_GOOD, GONE, OVER, TRAINED, Welcome

__all__ = ["Joining"]


class Joining:
    """Runs the script alone up to the other ranks' fit, and waits there. Local.

    Fits that the others have made are passed over, with their histories.

    Args:
        invitation: invitation of the leader that started this process.
    """

    def __init__(self, invitation: ft.Invitation) -> None:
        self._invitation = invitation
        told = {name: invitation.welcome[name] for name in Welcome._fields}
        self.welcome = Welcome(**told)
        self.histories: dict[int, dict[str, Any]] = dict(self.welcome.histories)

    def passes_over(self, fit: int) -> bool:
        """Whether the others have made fit number *fit*, from 0."""
        return fit in self.histories

    def arrive(self, fit: int, trained: list[int], data: list[float]) -> ft.Admission | None:
        """Wait at the first step of *fit* until all ranks admit this process.

        Args:
            fit: number of the fit in the script.
            trained: number of variables of each model and optimizer that the script trained.
            data: sketch of the data of the fit.

        Returns:
            Membership; None if the fit is over, whose history is known then.
        """
        try:
            self._invitation.tell({FIT: fit, TRAINED: trained, DATA: data})
            answer = self._invitation.wait()
        except ft.Unrecoverable:
            ft.end_unnoticed()
        if isinstance(answer, ft.Admission):
            return answer
        self.histories[fit] = answer[OVER]
        return None

    def leave(self, reason: str, *, for_good: bool = True) -> NoReturn:
        """End this process, which cannot join, after telling the leader the reason.

        MPI delivers no last message of a process that has ended.

        Args:
            reason: reason, which the leader prints.
            for_good: whether no other process could join later fits either; True by default.
        """
        with contextlib.suppress(ft.Unrecoverable):
            self._invitation.tell({GONE: reason, FOR_GOOD: for_good})
            while True:
                self._invitation.wait()
        ft.end_unnoticed()
