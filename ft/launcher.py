"""Detection of the launcher of this process from its environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Started", "may_span_hosts", "started_by", "transports"]


class Started(NamedTuple):
    """The launcher that started a process, and the number of processes.

    Attributes:
        launcher: name of the launcher, as in messages.
        processes: number of processes that it started; 0 if unknown.

    Example:
        >>> ft.Started("srun", 8).processes
        8
    """

    launcher: str
    processes: int


# Name of the launcher, variable that only its processes have, and variable with their number. The
# inner launcher comes first: an mpiexec inside a step of Slurm has both.
_LAUNCHERS = (
    ("Open MPI's mpiexec", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH's mpiexec", "PMI_RANK", "PMI_SIZE"),
    ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS"),
    ("a PMIx launcher", "PMIX_RANK", ""),
)


def started_by(environment: Mapping[str, str]) -> Started | None:
    """Determine which launcher started a process. Pure.

    The script of a Slurm batch job is not a step of the job: it runs once, whatever the number of
    tasks.

    Args:
        environment: environment variables of the process.

    Returns:
        The launcher; None if no launcher started the process.

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


def may_span_hosts(environment: Mapping[str, str]) -> bool:
    """Whether processes of the same launcher may be on other hosts; True in doubt. Pure."""
    ranks = environment.get("OMPI_COMM_WORLD_SIZE", "")
    on_one = bool(ranks) and environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == ranks
    return started_by(environment) is not None and not on_one


def transports(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of Open MPI's transports (``btl``) that *environment* does not contain. Pure.

    A process that no launcher started needs no transport: Open MPI 5.0 would create a segment in
    /dev/shm, and leave it there. On one host the libfabric transport finds no peer, and if it finds
    no network either it sleeps a second before it reports that. Between hosts TCP is set to send:
    by default the receiver fetches large messages, and two hosts that exchange messages take turns
    (4.1 MB both ways at 100 Mbit/s: 669 ms, and 354 to 378 by sending).
    """
    if started_by(environment) is None:
        wanted = {"OMPI_MCA_btl": "self"}
    elif may_span_hosts(environment):
        wanted = {"OMPI_MCA_btl_tcp_flags": "send"}
    else:
        wanted = {"OMPI_MCA_btl": "^ofi"}
    return {name: value for name, value in wanted.items() if name not in environment}
