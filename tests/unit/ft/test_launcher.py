"""The launcher of a process, by its variables; and a process without MPI, which is one rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ft
from ci.patience import patience
from ft.launcher import may_span_hosts, transports

ROOT = Path(ft.__file__).parents[1]
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "1"}
BATCH = {"SLURM_JOB_ID": "17", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}

CASES: dict[str, tuple[dict[str, str], ft.Started | None]] = {
    "a user": ({}, None),
    "open-mpi": (OPEN_MPI, ft.Started("Open MPI's mpiexec", 4)),
    "mpich": ({"PMI_RANK": "0", "PMI_SIZE": "2"}, ft.Started("MPICH's mpiexec", 2)),
    "srun": ({**BATCH, "SLURM_STEP_NUM_TASKS": "8"}, ft.Started("srun", 8)),
    "srun with pmix": (
        {**BATCH, "SLURM_STEP_NUM_TASKS": "8", "PMIX_RANK": "3"},
        ft.Started("srun", 8),
    ),
    "the script of a batch job": (BATCH, None),
    "mpiexec in a step of Slurm": (
        {**BATCH, "SLURM_STEP_NUM_TASKS": "1", **OPEN_MPI},
        ft.Started("Open MPI's mpiexec", 4),
    ),
    "pmix alone": ({"PMIX_RANK": "0"}, ft.Started("a PMIx launcher", 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_launcher_is_told(case: str) -> None:
    environment, expected = CASES[case]
    assert ft.started_by(environment) == expected


ONE_HOST = OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": OPEN_MPI["OMPI_COMM_WORLD_SIZE"]}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        (ONE_HOST, False),
        (ONE_HOST | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, True),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, True),
    ],
)
def test_processes_may_be_on_other_hosts_unless_all_are_here(
    environment: dict[str, str], expected: bool
) -> None:
    assert may_span_hosts(environment) is expected


TRANSPORTS = {
    "nobody to talk to": ({}, {"OMPI_MCA_btl": "self"}),
    "all on this host": (ONE_HOST, {"OMPI_MCA_btl": "^ofi"}),
    "some on others": (
        ONE_HOST | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        {"OMPI_MCA_btl_tcp_flags": "send"},
    ),
    "another launcher": (
        {"PMI_RANK": "0", "PMI_SIZE": "2"},
        {"OMPI_MCA_btl_tcp_flags": "send"},
    ),
    "what the user has said": (ONE_HOST | {"OMPI_MCA_btl": "^smcuda"}, {}),
}


@pytest.mark.parametrize("case", TRANSPORTS)
def test_only_transports_that_may_be_needed(case: str) -> None:
    environment, expected = TRANSPORTS[case]
    assert transports(environment) == expected


COLLECTIVES = """
import numpy as np
import ft
from ft.launcher import may_span_hosts, transports

comm = ft.Communicator.start()
ft.shield(comm.leave)
total = np.zeros(3)
comm.allreduce(np.arange(3.0), total)
comm.broadcast(total)
comm.barrier()
gathered = comm.allgather(np.array([[7, 8]]))
print(ft.has_mpi(), ft.has_ulfm(), comm.world.size, total.tolist(), gathered.rows.tolist())
print(comm.agree(True), comm.agree(False), comm.done)
"""
# Either mpi4py is not installed, or there is no MPI library that it could load.
MISSING = {
    "mpi4py": ("import sys; sys.modules['mpi4py'] = None\n", {}),
    "MPI": ("", {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}),
}


def without(what: str, **environment: str) -> subprocess.CompletedProcess[str]:
    before, variables = MISSING[what]
    return run(before + COLLECTIVES, **variables, **environment)


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment},
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("what", MISSING)
def test_a_process_without_mpi_is_one_rank(what: str) -> None:
    done = without(what)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False False 1 [0.0, 1.0, 2.0] [[[7, 8]]]\nTrue False 6\n"


@pytest.mark.parametrize("what", MISSING)
def test_one_of_several_that_a_launcher_started_is_told_what_is_missing(what: str) -> None:
    done = without(what, SLURM_STEP_NUM_TASKS="4")
    assert done.returncode != 0
    assert "MPI was not found" in done.stderr
    assert done.stdout == ""


def test_processes_that_mpi_does_not_bring_together_are_told_so(tmp_path: Path) -> None:
    """It happens under an srun with another PMI than mpi4py's MPI: each would train alone."""
    alone = {"OMPI_MCA_btl": "self", "TMPDIR": str(tmp_path)}  # leaves nothing in /dev/shm
    done = run(COLLECTIVES, SLURM_STEP_NUM_TASKS="4", **alone)
    assert done.returncode != 0
    assert "srun started 4 processes and MPI knows of one" in done.stderr
