"""What a batch system has given this job: pure functions of its environment.

Slurm and PBS are known to Open MPI's own launcher, which reads the hosts and starts
its daemons through them, without ssh; it must only be told how many ranks. LSF's
hosts are handed to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Allocation", "allocation"]


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A batch job's hosts.

    Args:
        system: its name.
        nodes: how many.
        ranks: how many processes were asked for, over all nodes.
        hosts: ``a:4,b:4`` where the launcher must be told, else None.
    """

    system: str
    nodes: int
    ranks: int
    hosts: str | None = None


def allocation(
    environment: Mapping[str, str], read: Callable[[str], str] = lambda path: ""
) -> Allocation | None:
    """The allocation that *environment* is of; None outside a batch job.

    Args:
        read: the content of a file that the environment names.
    """
    if "SLURM_JOB_ID" in environment and "SLURM_JOB_NUM_NODES" in environment:
        return _slurm(environment)
    if "PBS_NODEFILE" in environment:
        return _pbs(read(environment["PBS_NODEFILE"]))
    if "LSB_MCPU_HOSTS" in environment:
        return _lsf(environment["LSB_MCPU_HOSTS"])
    return None


def _slurm(environment: Mapping[str, str]) -> Allocation:
    nodes = int(environment["SLURM_JOB_NUM_NODES"])
    asked = environment.get("SLURM_NTASKS")
    a_node = environment.get("SLURM_TASKS_PER_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE")
    ranks = int(asked) if asked else sum(_expanded(a_node or f"1(x{nodes})"))
    return Allocation(system="Slurm", nodes=nodes, ranks=ranks)


def _expanded(text: str) -> list[int]:
    """Slurm's ``2(x3),1`` as [2, 2, 2, 1]."""
    counts: list[int] = []
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(number)] * int(times or 1)
    return counts


def _pbs(nodefile: str) -> Allocation | None:
    """One line a process, with its host."""
    hosts = Counter(line.strip() for line in nodefile.splitlines() if line.strip())
    if not hosts:
        return None
    return Allocation(system="PBS", nodes=len(hosts), ranks=hosts.total())


def _lsf(text: str) -> Allocation | None:
    """``a 4 b 4``."""
    words = text.split()
    slots = {host: int(count) for host, count in zip(words[::2], words[1::2], strict=False)}
    if not slots:
        return None
    hosts = ",".join(f"{host}:{count}" for host, count in slots.items())
    return Allocation(system="LSF", nodes=len(slots), ranks=sum(slots.values()), hosts=hosts)
