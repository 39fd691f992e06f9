"""Stand-in for mpi4py in a process without an MPI library and without peers."""

from __future__ import annotations

import numpy as np

__all__ = ["SERIAL"]


class _Error(Exception):
    """Stand-in for mpi4py's exception; never raised, because one rank has no failures."""


class _SerialWorld:
    """COMM_WORLD of one rank: each operation gives back the rank's own contribution."""

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def Barrier(self) -> None:
        """Return at once: the only member waits for nobody."""

    def Bcast(self, buffer: np.ndarray, root: int = 0) -> None:
        """Leave *buffer* as it is: its only member has it already."""

    def Allreduce(self, send: np.ndarray, recv: np.ndarray, op: object = None) -> None:
        np.copyto(recv, send)

    def Allgather(self, send: np.ndarray, recv: np.ndarray) -> None:
        recv[0] = send


class _SerialMpi:
    """Stand-in for the module ``mpi4py.MPI``."""

    Exception = _Error
    COMM_WORLD = _SerialWorld()
    MIN = "min"
    UNDEFINED = ERR_UNKNOWN = ERR_PROC_FAILED = -1  # so there is no ULFM
    ERR_BUFFER = ERR_COUNT = ERR_TYPE = ERR_OP = ERR_ARG = -2


SERIAL = _SerialMpi()
