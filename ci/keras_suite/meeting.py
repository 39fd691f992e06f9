"""The other ranks that run Keras's tests: which one this is, and a barrier with them.

Apart from rank.py, whose text matex looks through: a script that asks for its rank writes its
files itself, and these tests are scripts that do not.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

__all__ = ["meeting", "place"]

_PEERS_S = 0.001


def place() -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    names = ("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")
    rank, size = (int(os.environ.get(*name)) for name in names)
    return rank, size


def meeting(size: int) -> Callable[[], None]:
    """A barrier of *size* ranks, by which no test begins before all have left the one before.

    It has a communicator of its own: who is still in an operation of matex does not pair with it.
    A rank that loses another ends itself, and the rest of the tests is for the next launch.
    """
    if size == 1:
        return lambda: None
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()

    def meet() -> None:
        try:
            request = world.Ibarrier()
            while not request.Test():
                time.sleep(_PEERS_S)  # the core is for who still works
        except MPI.Exception:
            os.kill(os.getpid(), signal.SIGKILL)

    return meet
