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
# sbatch --export sets it for all of the job's srun: without PATH and the like no daemon starts.
_EXPORTED = {"SLURM_EXPORT_ENV": "ALL"}
# A job by SLURM_HOSTFILE has no SLURM_TASKS_PER_NODE, without which Open MPI finds no hosts, and
# its srun would place the daemons by that file, too.
_ONE_DAEMON_A_NODE = {"SLURM_DISTRIBUTION": "block"}


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
        unused: sentence about nodes of the job that are not among these; empty if there are none.
        step: sentence about the step that *ranks* is of, where that is not the whole job; else "".
    """

    system: str
    nodes: int
    ranks: int
    hosts: str | None = None
    slots: Mapping[str, int] = field(default_factory=dict)
    unused: str = ""
    step: str = ""


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
    exported = _EXPORTED if "SLURM_EXPORT_ENV" in environment else {}
    wanted = {name: value for name, value in _SRUN.items() if name not in environment} | exported
    if environment.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        wanted |= _ONE_DAEMON_A_NODE
    cores = environment.get("SLURM_JOB_CPUS_PER_NODE")
    if cores and "SLURM_TASKS_PER_NODE" not in environment:
        wanted["SLURM_TASKS_PER_NODE"] = cores
    return wanted


def _slurm(environment: Mapping[str, str]) -> Allocation:
    nodes = _number(environment, "SLURM_JOB_NUM_NODES")
    a_node = environment.get("SLURM_TASKS_PER_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE")
    each = _expanded(a_node or f"1(x{nodes})")
    ranks = _number(environment, "SLURM_NTASKS") if environment.get("SLURM_NTASKS") else sum(each)
    names = _named(environment.get("SLURM_JOB_NODELIST", ""))
    slots = dict.fromkeys(names, 1) | dict(zip(names, each, strict=False))
    return Allocation(
        system="Slurm",
        nodes=nodes,
        ranks=ranks,
        slots=slots,
        unused=_unused(environment),
        step=_step(environment, nodes=nodes, ranks=ranks),
    )


def _unused(environment: Mapping[str, str]) -> str:
    """Sentence about a heterogeneous job's nodes of which a launcher's variables do not tell."""
    components = environment.get("SLURM_HET_SIZE", "1")
    if components == "1":
        return ""
    return (
        f"the heterogeneous job has {components} components, and ranks start on the nodes of the "
        f"first alone: ask for all nodes in one component"
    )


def _step(environment: Mapping[str, str], *, nodes: int, ranks: int) -> str:
    """Sentence about a step of some of the job's nodes, of which the number of tasks is.

    In a shell that salloc has started in a step these variables are the job's.
    """
    of_step = "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"
    given = environment.get("SLURM_STEP_NUM_NODES", "")
    if len({environment.get(name) for name in of_step}) > 1 or given in ("", str(nodes)):
        return ""
    return (
        f"srun gave this step {given} of the job's {nodes} nodes, so the number of ranks is the "
        f"step's, {ranks}: start matex run without srun, or give -n"
    )


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
    slots: Counter[str] = Counter()  # a host may be named again
    for host, count in zip(words[::2], words[1::2], strict=True):
        slots[host] += int(count)
    hosts = ",".join(f"{host}:{count}" for host, count in slots.items() if count)
    if not hosts:
        return None
    return Allocation(system="LSF", nodes=hosts.count(",") + 1, ranks=slots.total(), hosts=hosts)
