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

from ft.answers import one_answer
from ft.bridge import Message
from ft.cold_spares import ColdSpares
from ft.collectives import chunk_elements
from ft.communicator import Communicator
from ft.errors import (
    ClosedError,
    FaultSyntaxError,
    FtError,
    InjectedExit,
    InjectedFault,
    PeerFailure,
    Unrecoverable,
    UsageError,
)
from ft.exit_guard import shield, shielded
from ft.failure_models import FailureModel, in_steps, sample
from ft.faults import EVENTS, KINDS, PHASES, Fault, check_faults, parse_fault
from ft.hooks import Hooks
from ft.injector import Injector
from ft.invitation import Admission, Invitation
from ft.launcher import Started, started_by
from ft.mpi import allow_newcomers, has_mpi, has_ulfm
from ft.newcomers import Newcomer, PendingProcess, Spawn
from ft.p2p import Receiving, Sending, Swap
from ft.plans import read_plan, write_plan
from ft.process_end import end_unnoticed, fail_stop, on_fail_stop, program_error
from ft.quorum import Arbiter, NetworkSplit, Ruling, may_be_given_up
from ft.records import Gathered, Pending, Recovery
from ft.views import Purpose
from ft.watchdog import Watchdog
from ft.world import Member, World

__all__ = [
    "EVENTS",
    "KINDS",
    "PHASES",
    "Admission",
    "Arbiter",
    "ClosedError",
    "ColdSpares",
    "Communicator",
    "FailureModel",
    "Fault",
    "FaultSyntaxError",
    "FtError",
    "Gathered",
    "Hooks",
    "InjectedExit",
    "InjectedFault",
    "Injector",
    "Invitation",
    "Member",
    "Message",
    "NetworkSplit",
    "Newcomer",
    "PeerFailure",
    "Pending",
    "PendingProcess",
    "Purpose",
    "Receiving",
    "Recovery",
    "Ruling",
    "Sending",
    "Spawn",
    "Started",
    "Swap",
    "Unrecoverable",
    "UsageError",
    "Watchdog",
    "World",
    "allow_newcomers",
    "check_faults",
    "chunk_elements",
    "end_unnoticed",
    "fail_stop",
    "has_mpi",
    "has_ulfm",
    "in_steps",
    "may_be_given_up",
    "on_fail_stop",
    "one_answer",
    "parse_fault",
    "program_error",
    "read_plan",
    "sample",
    "shield",
    "shielded",
    "started_by",
    "write_plan",
]
