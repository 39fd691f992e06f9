"""Operations that go wrong for one rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

import ft

__all__ = ["add_up"]


def add_up(comm: ft.Communicator, *, fails: bool) -> None:
    """An operation that completes everywhere, though this rank may take it for failed."""
    total = np.empty(1)

    def call(handle: Any) -> None:
        handle.Allreduce(np.ones(1), total)
        handle.Agree(1)  # a revoke does not end this call
        if fails and comm.done == done:
            raise MPI.Exception(MPI.ERR_REVOKED)

    done = comm.done
    while comm.done == done:
        try:
            comm.attempt(total, call)
        except ft.PeerFailure:
            fails = False
            comm.recover()
    assert total[0] == comm.world.size
