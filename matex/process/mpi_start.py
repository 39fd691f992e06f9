"""Start of MPI on a rank: it meets the others, or waits until it is called to join them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

import ft
import matex.files.scratch  # noqa: F401 - it takes its descriptor before MPI opens any
from ft import mpi
from matex.config import Config, arbiter_setting, starting_rank
from matex.config.launcher_address import LauncherAddress
from matex.records.launcher_protocol.starting_connection import StartingConnection
from matex.records.launcher_protocol.starting_file import end_start
from matex.run.joining import Joining

__all__ = ["MpiStart", "start_mpi"]


class MpiStart(NamedTuple):
    """Communicator of all ranks, or a newcomer's own with its way into the run."""

    communicator: ft.Communicator
    joining: Joining | None = None
    cold_spares: ft.ColdSpares | None = None

    @property
    def possible_hosts(self) -> set[str] | None:
        """Hosts on which ranks are, or may come to be; None on a newcomer."""
        if self.joining is not None:
            return None
        waiting = frozenset() if self.cold_spares is None else self.cold_spares.hosts
        return {member.host for member in self.communicator.world.everyone} | waiting

    @property
    def host_count(self) -> int:
        """Number of hosts of the run."""
        if self.joining is not None:
            return self.joining.welcome.hosts
        return self.communicator.world.host_count


def start_mpi(config: Config, prepare: Callable[[], None]) -> MpiStart:
    """Meet the other ranks, or wait until a rank calls this process; collective.

    A cold spare that is not called ends here, when the run is over.

    Args:
        config: configuration of the run.
        prepare: function that a cold spare calls, in a thread, when it is likely to be needed soon.

    Raises:
        ft.Unrecoverable: no MPI.
    """
    starting = _starting_connection()
    if config.respawn:
        ft.allow_newcomers()
    mpi.load()
    if config.report is not None:
        end_start(config.report)
    if starting is not None:
        starting.end()
    cold = ft.ColdSpares.meet(config.cold) if config.cold else None
    try:
        invitation = _invitation(cold, prepare) if config.respawn else None
    except ft.Unrecoverable:
        if not mpi.is_initialized():
            raise
        ft.end_unnoticed()  # the sponsor has died
    if invitation is None:
        return MpiStart(ft.Communicator.start(cold=cold), cold_spares=cold)
    joining = Joining(invitation)
    alone = mpi.load().COMM_SELF
    communicator = ft.Communicator(
        alone, invitation.world, initial_size=joining.welcome.ranks, cold=cold
    )
    return MpiStart(communicator, joining, cold)


def _starting_connection() -> StartingConnection | None:
    """This rank's connection to the launcher, if that watches ranks on several hosts; local."""
    setting, rank = arbiter_setting(), starting_rank()
    if setting is None or rank is None:
        return None
    return StartingConnection(LauncherAddress.read(setting), rank)


def _invitation(cold: ft.ColdSpares | None, prepare: Callable[[], None]) -> ft.Invitation | None:
    """Invitation of this process, if it is a newcomer; local, and waits for a call.

    Raises:
        ft.Unrecoverable: the sponsor has died.
    """
    if cold is None or not cold.is_one:
        return ft.Invitation.received()
    ahead = threading.Thread(target=prepare, daemon=True)
    bridge = cold.wait(expected=ahead.start)
    if bridge is None:
        mpi.finalize()
        os._exit(0)  # at once, also where the libraries are half imported
    if ahead.ident is not None:
        ahead.join()
    return ft.Invitation(bridge)
