"""Resources that a batch system gave this job: pure functions of its environment.

Slurm and PBS are known to Open MPI's own launcher, which reads the hosts and starts
its daemons through them, without ssh; it must only be told how many ranks. LSF's
hosts are handed to it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from matex.errors import InputError

__all__ = ["Allocation", "allocation", "launcher_settings"]

# srun, by which Open MPI starts its daemons, reads these. A step goes on when one of its nodes is
# lost, as the job does under --no-kill; and it does not wait for the cores of another step, which
# one that lost a node holds for long.
_SRUN = {"SLURM_NO_KILL": "set", "SLURM_OVERLAP": "1"}


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A batch job's hosts.

    Args:
        system: name of the batch system.
        nodes: number of nodes.
        slots: processes on each node, by its name, as the system's own launcher takes it; empty
            where it does not tell.
        ranks: number of processes that were asked for, over all nodes.
        hosts: ``a:4,b:4`` if the launcher needs it, else None.
    """

    system: str
    nodes: int
    ranks: int
    hosts: str | None = None
    slots: Mapping[str, int] = field(default_factory=dict)


def allocation(
    environment: Mapping[str, str], read: Callable[[str], str] = lambda path: ""
) -> Allocation | None:
    """The allocation that *environment* is of; None outside a batch job.

    Args:
        read: the content of a file that the environment names.

    Raises:
        InputError: a variable has the wrong form, or the node file cannot be read.
    """
    if "SLURM_JOB_ID" in environment and "SLURM_JOB_NUM_NODES" in environment:
        return _slurm(environment)
    if "PBS_NODEFILE" in environment:
        try:
            return _pbs(read(environment["PBS_NODEFILE"]))
        except OSError as error:
            raise InputError(
                "environment variable PBS_NODEFILE must name a file that can be read. "
                f"Received: {environment['PBS_NODEFILE']}: {error.strerror}"
            ) from None
    if "LSB_MCPU_HOSTS" in environment:
        return _lsf(environment["LSB_MCPU_HOSTS"])
    return None


def launcher_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables to add to *environment*, of a batch job, for the launcher of its ranks. Pure."""
    if "SLURM_JOB_ID" not in environment:
        return {}
    return {name: value for name, value in _SRUN.items() if name not in environment}


def _slurm(environment: Mapping[str, str]) -> Allocation:
    nodes = _number(environment, "SLURM_JOB_NUM_NODES")
    a_node = environment.get("SLURM_TASKS_PER_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE")
    each = _expanded(a_node or f"1(x{nodes})")
    ranks = _number(environment, "SLURM_NTASKS") if environment.get("SLURM_NTASKS") else sum(each)
    names = _named(environment.get("SLURM_JOB_NODELIST", ""))
    slots = dict.fromkeys(names, 1) | dict(zip(names, each, strict=False))
    return Allocation(system="Slurm", nodes=nodes, ranks=ranks, slots=slots)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"environment variable {name} must be a whole number from 1. Received: {text!r}"
        )
    return int(text)


def _expanded(text: str) -> list[int]:
    """Slurm's ``2(x3),1`` as [2, 2, 2, 1]."""
    counts: list[int] = []
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(number)] * int(times or 1)
    return counts


def _named(text: str) -> tuple[str, ...]:
    """Slurm's ``a[08-10,12],b`` as (a08, a09, a10, a12, b)."""
    names: list[str] = []
    for word in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        parts = re.split(r"\[([^\]]*)\]", word)  # text and numbers in turns
        choices = [_numbers(part) if at % 2 else [part] for at, part in enumerate(parts)]
        names += map("".join, itertools.product(*choices))
    return tuple(names)


def _numbers(text: str) -> list[str]:
    """Slurm's ``08-10,12`` as [08, 09, 10, 12]."""
    numbers: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and last.isdecimal():
            numbers += [f"{n:0{len(first)}}" for n in range(int(first), int(last) + 1)]
        else:
            numbers.append(part)
    return numbers


def _pbs(nodefile: str) -> Allocation | None:
    """Allocation from a node file with one line per process, which names its host."""
    hosts = Counter(line.strip() for line in nodefile.splitlines() if line.strip())
    if not hosts:
        return None
    return Allocation(system="PBS", nodes=len(hosts), ranks=hosts.total(), slots=hosts)


def _lsf(text: str) -> Allocation | None:
    """``a 4 b 4``."""
    words = text.split()
    if len(words) % 2 or not all(count.isdecimal() for count in words[1::2]):
        raise InputError(
            "environment variable LSB_MCPU_HOSTS must be hosts and numbers, as in 'a 4 b 4'. "
            f"Received: {text!r}"
        )
    slots = {host: int(count) for host, count in zip(words[::2], words[1::2], strict=True)}
    if not slots:
        return None
    hosts = ",".join(f"{host}:{count}" for host, count in slots.items())
    return Allocation(system="LSF", nodes=len(slots), ranks=sum(slots.values()), hosts=hosts)
