"""Ranks of a run that wait in reserve, come in the place of dead ones, or leave on request."""

from __future__ import annotations

import ft
from matex.files.private import PrivateFiles
from matex.run.joining import Joining
from matex.run.records import RunRecords
from matex.run.replacements import Replacements
from matex.run.resize_requests import ResizeRequests
from matex.run.waiting_newcomers import WaitingNewcomers

__all__ = ["ElasticRanks"]


class ElasticRanks:
    """Means by which the number of ranks changes, other than by deaths.

    Args:
        communicator: ranks of the run.
        records: records of the run.
        waiting_newcomers: newcomers that wait at a fit.
        replacements: processes that become newcomers.
        resize_requests: requests for more ranks or fewer.
        joining: state of this process on its way into a running run; None on ranks of the start.
        grow_to: number of ranks with which the run is started again when that many can be had.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        records: RunRecords,
        waiting_newcomers: WaitingNewcomers,
        replacements: Replacements,
        resize_requests: ResizeRequests,
        joining: Joining | None,
        *,
        grow_to: int,
    ) -> None:
        self._communicator = communicator
        self._records = records
        self.waiting_newcomers = waiting_newcomers
        self.replacements = replacements
        self.resize_requests = resize_requests
        self.joining = joining
        self._grow_to = grow_to
        self.files: PrivateFiles | None = None
        """Files of the script, which newcomers take over; None for one rank."""

    @property
    def is_short(self) -> bool:
        """Whether ranks are missing that could be started again. Local."""
        missing = self._communicator.world.size < self._grow_to
        return missing and not self.replacements.is_open

    def never_regrow(self) -> None:
        """Go on without the missing ranks; equally on all ranks."""
        self._grow_to = 0

    def call_spares_back(self, *, closing: bool = False) -> None:
        """Make all spares members, and record those that have died; collective.

        Args:
            closing: whether all ranks leave together next; False by default.
        """
        communicator = self._communicator
        waiting = {member.rank for member in communicator.world.spares}
        communicator.call_back(closing=closing)
        self._records.recoveries.spares_lost(waiting - set(communicator.world.ranks))

    def record_spares(self) -> None:
        """Record that the other ranks are spares from now on."""
        world, records = self._communicator.world, self._records
        waiting = [member.rank for member in world.spares]
        if waiting and world.is_leader:
            records.note("reserve", ranks=waiting)
