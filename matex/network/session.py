"""A rank's part of ``matex doctor --network``: pairs measure in turn; the first rank prints."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil

import ft
from ft import mpi as ft_mpi
from matex.network.advice import INCLUDE
from matex.network.figures import HostCard, Installation, Interface, PairFigures
from matex.network.measuring import Meter
from matex.network.placement import Placement, pairs_of
from matex.network.table import text

__all__ = ["attend"]

_COMMAND = "matex doctor --network"
_LIMIT_S = 60.0  # of one exchange of messages, which takes a second or two on a slow network
_LOOK_S = 5e-3
_OF_OPEN_MPI = "OMPI_MCA_btl"
_WHY = (
    "a host that is down, a firewall, or an interface that does not lead to the other host; with "
    f"Open MPI name the one that does: export {INCLUDE}=eth0"
)


def attend(parameters: int, environment: Mapping[str, str]) -> int:
    """Measure the network with the other ranks of this launch, all of which call this.

    The first rank prints the report. A rank that dies, or that no message reaches for a minute,
    ends all of them.

    Args:
        parameters: number of parameters of the model that is asked about.
        environment: environment variables of this process.

    Returns:
        The exit status: 0, or 2 if the ranks are on a single host.

    Raises:
        ft.Unrecoverable: no MPI library sees the other ranks.
    """
    stage = _Stage()
    watchdog = ft.Watchdog(timeout_s=_LIMIT_S, say=stage.stuck)
    watchdog.start()
    with watchdog.working():
        mpi = ft_mpi.load()
        ft.shield(ft_mpi.finalize)
        try:
            status = _attend(mpi, parameters, environment, watchdog, stage)
        except mpi.Exception as error:
            stage.say(f"{error}, while {stage.name}: {_WHY}")
            ft.fail_stop(str(error), error=error)
        stage.name = "the others ended"
        ft_mpi.finalize()
    watchdog.stop()
    return status


class _Stage:
    """The stage that the measurement is in, for messages."""

    name = "the ranks met"

    def stuck(self, _: str) -> None:
        """Print that no message came, and possible causes."""
        self.say(f"no message came for {_LIMIT_S:.0f} s, while {self.name}: {_WHY}")

    def say(self, line: str) -> None:
        print(f"{_COMMAND}: {socket.gethostname()}: {line}", file=sys.stderr, flush=True)


def _attend(
    mpi: Any, parameters: int, environment: Mapping[str, str], watchdog: ft.Watchdog, stage: _Stage
) -> int:
    world = mpi.COMM_WORLD
    placement = Placement(tuple(world.allgather(socket.gethostname())))
    rank = world.Get_rank()
    if len(placement.hosts) < 2:
        if rank == 0:
            print(
                f"{_COMMAND}: ranks on two hosts or more are wanted. Received: {placement.text()}; "
                "name the hosts, as in --hosts a:2,b:2, or ask the batch system for several nodes",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        return 2
    leads = rank in placement.leaders
    leaders = world.Split(0 if leads else mpi.UNDEFINED, rank)
    parts: list[tuple[list[PairFigures], HostCard]] = []
    if leads:
        figures = _measured(mpi, leaders, placement, watchdog, stage)
        stage.name = "the figures were gathered"
        parts = leaders.gather((figures, _card()), root=0)
    stage.name = "others measured"
    _meet(world, watchdog)
    if rank == 0:
        vendor, version = mpi.get_vendor()
        installation = Installation(
            library=f"{vendor} {'.'.join(map(str, version))}",
            ulfm=ft.has_ulfm(),
            settings={n: v for n, v in environment.items() if n.startswith(_OF_OPEN_MPI)},
            cards=tuple(card for _, card in parts),
        )
        figures = [pair for part, _ in parts for pair in part]
        print(text(figures, placement, installation, parameters=parameters), flush=True)
    return 0


def _measured(
    mpi: Any, leaders: Any, placement: Placement, watchdog: ft.Watchdog, stage: _Stage
) -> list[PairFigures]:
    """Figures of the pairs that this rank leads, measured in sequence."""
    hosts, here = placement.hosts, leaders.Get_rank()
    meter = Meter(mpi, leaders, watchdog.progress)
    found = []
    for a, b in pairs_of(len(hosts)):
        stage.name = f"{hosts[a]} and {hosts[b]} measured"
        if here in (a, b):
            pair = meter.measure((hosts[a], hosts[b]), b if here == a else a, leads=here == a)
            found += [pair] if pair is not None else []
        _meet(leaders, watchdog)
    return found


def _meet(comm: Any, watchdog: ft.Watchdog) -> None:
    """Wait for the other ranks without busy waiting, which could disturb measurements.

    A hanging measurement is ended by its ranks' watchdogs, and then this call fails.
    """
    request = comm.Ibarrier()
    while not request.Test():
        watchdog.progress()
        time.sleep(_LOOK_S)
    watchdog.progress()


def _card() -> HostCard:
    """The interfaces of this host."""
    states = psutil.net_if_stats()
    interfaces = tuple(
        Interface(name=name, mbit_s=states[name].speed)
        for name, addresses in sorted(psutil.net_if_addrs().items())
        if name != "lo" and name in states and states[name].isup
        and any(address.family == socket.AF_INET for address in addresses)
    )  # fmt: skip
    return HostCard(host=socket.gethostname(), interfaces=interfaces)
