"""Fault-tolerant MPI for any mpi4py program: collectives that outlive their members.

::

    comm = ft.Communicator.start()
    ft.shield(comm.leave)
    while work:
        try:
            comm.allreduce(mine, total)
        except ft.PeerFailure:
            if not comm.recover().finished:
                continue                    # make the same operation again
        use(total)

Nothing happens at import; MPI starts with :meth:`Communicator.start`.
"""

from ft.communicator import Communicator, stretch_elements
from ft.errors import (
    ClosedError,
    FaultSyntaxError,
    FtError,
    InjectedFault,
    PeerFailure,
    Unrecoverable,
    UsageError,
)
from ft.faults import KINDS, PHASES, Fault, Injector, check_faults, parse_fault
from ft.launcher import Started, started_by
from ft.mpi import die, has_mpi, has_ulfm, on_death, shield, shielded
from ft.p2p import Swap
from ft.records import Gathered, Pending, Recovery
from ft.watchdog import Watchdog
from ft.world import Member, World

__all__ = [
    "KINDS",
    "PHASES",
    "ClosedError",
    "Communicator",
    "Fault",
    "FaultSyntaxError",
    "FtError",
    "Gathered",
    "InjectedFault",
    "Injector",
    "Member",
    "PeerFailure",
    "Pending",
    "Recovery",
    "Started",
    "Swap",
    "Unrecoverable",
    "UsageError",
    "Watchdog",
    "World",
    "check_faults",
    "die",
    "has_mpi",
    "has_ulfm",
    "on_death",
    "parse_fault",
    "shield",
    "shielded",
    "started_by",
    "stretch_elements",
]
