"""An operation that waits for a living rank ends, too, once MPI knows of a dead one."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import ft
from tests.fault.programs import begin, mark
from tests.fault.ranks import run


def wait_for_each_other() -> None:
    """Rank 2 dies; 0 and 1 wait for messages that neither sends, and of which none is from 2."""
    from mpi4py import MPI

    from ft.interruption import Interruption

    communicator = begin()
    rank, comm = communicator.world.rank, communicator._membership.handle
    communicator.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with Interruption().watching(comm):
            comm.recv(source=1 - rank)
    except MPI.Exception as error:
        mark("revoked", error.Get_error_class() == MPI.ERR_REVOKED)
    communicator.regroup("it was interrupted")
    mark("world", communicator.world.ranks)


def test_it_is_given_up() -> None:
    job = run(wait_for_each_other, ranks=3)
    assert job.ended == {0, 1}, job.output
    assert job["revoked"] == {0: True, 1: True}
    assert job["world"] == {0: [0, 1], 1: [0, 1]}


def on_hosts(known: str) -> None:
    """Two ranks whose hosts have different names, of which the launcher may know."""
    import socket

    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    socket.gethostname = lambda: f"host-{rank}"
    if known:
        os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1"
    communicator = begin()
    communicator.barrier()
    mark("hosts", communicator.world.host_count)
    MPI = ft.mpi.load()
    mark("may", MPI.Query_thread() == MPI.THREAD_MULTIPLE)
    mark("does", any(thread.name == "ft-deaths" for thread in threading.enumerate()))


@pytest.mark.parametrize("known", ["known", ""])
def test_a_second_thread_calls_mpi_only_where_mpi_expects_it(known: str) -> None:
    job = run(on_hosts, ranks=2, known=known)
    assert job["hosts"] == {0: 2, 1: 2}, job.output
    assert job["may"] == job["does"] == dict.fromkeys((0, 1), bool(known))
