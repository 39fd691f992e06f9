"""The launcher of this process: pure functions of its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Started", "started_by", "transports"]


class Started(NamedTuple):
    """The launcher that started a process, and the number of processes.

    Attributes:
        launcher: name of the launcher, in words.
        processes: number of processes that it started; 0 where it does not say.

    Example:
        >>> ft.Started("srun", 8).processes
        8
    """

    launcher: str
    processes: int


# A variable that only this launcher's processes have, and where their number is. The inner
# one comes first: an mpiexec inside a step of Slurm has both.
_LAUNCHERS = (
    ("Open MPI's mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH's mpiexec", "PMI_RANK", "PMI_SIZE"),
    ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS"),
    ("a PMIx launcher", "PMIX_RANK", ""),
)


def started_by(environment: Mapping[str, str]) -> Started | None:
    """Find out which launcher started a process. Pure.

    The script of a Slurm batch job is not a step of it: it runs once, whatever the
    number of tasks that the job was given.

    Args:
        environment: environment variables of the process.

    Returns:
        The launcher; None where a user started the process.

    Example:
        >>> ft.started_by({"PMI_RANK": "0", "PMI_SIZE": "4"})
        Started(launcher="MPICH's mpiexec", processes=4)
        >>> ft.started_by({}) is None
        True
    """
    for name, variable, size in _LAUNCHERS:
        if variable in environment:
            text = environment.get(size, "")
            return Started(name, int(text) if text.isdecimal() else 0)
    return None


def transports(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of Open MPI's transports (``btl``), those of *environment* left out. Pure.

    A process that no launcher started needs none: Open MPI 5.0 would give it a segment in
    /dev/shm, and leave it there. On one host the one for libfabric finds nobody to talk to,
    and where it finds no network either it sleeps a second before it says so. Between hosts TCP
    is told to send: by default the receiver fetches large messages, and two hosts that exchange
    some take turns (4.1 MB both ways at 100 Mbit/s: 669 ms, and 354 to 378 by sending).
    """
    ranks = environment.get("OMPI_COMM_WORLD_SIZE", "")
    if started_by(environment) is None:
        wanted = {"OMPI_MCA_btl": "self"}
    elif ranks and environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == ranks:
        wanted = {"OMPI_MCA_btl": "^ofi"}
    else:
        wanted = {"OMPI_MCA_btl_tcp_flags": "send"}
    return {name: value for name, value in wanted.items() if name not in environment}
