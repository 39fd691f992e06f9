"""The variables that batch systems set for a job, in their own form."""

from __future__ import annotations

import pytest

from matex.config.batch_systems import Allocation, allocation, launcher_settings

SLURM = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "3"}
NODEFILE = "n1\nn1\nn2\nn2\n"

CASES: dict[str, tuple[dict[str, str], Allocation | None]] = {
    "none": ({}, None),
    "slurm-tasks": (
        {**SLURM, "SLURM_NTASKS": "12", "SLURM_TASKS_PER_NODE": "4(x3)"},
        Allocation(system="Slurm", nodes=3, ranks=12),
    ),
    "slurm-uneven": (
        {**SLURM, "SLURM_TASKS_PER_NODE": "2(x2),1"},
        Allocation(system="Slurm", nodes=3, ranks=5),
    ),
    "slurm-cpus-only": (
        {**SLURM, "SLURM_JOB_CPUS_PER_NODE": "40(x3)"},
        Allocation(system="Slurm", nodes=3, ranks=120),
    ),
    "slurm-names": (
        {**SLURM, "SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": "gpu-[08-10,12],b,r[1-2]n[3,5]-x"},
        Allocation(
            system="Slurm",
            nodes=3,
            ranks=3,
            slots={
                "gpu-08": 1,
                "gpu-09": 1,
                "gpu-10": 1,
                "gpu-12": 1,
                "b": 1,
                "r1n3-x": 1,
                "r1n5-x": 1,
                "r2n3-x": 1,
                "r2n5-x": 1,
            },
        ),
    ),
    "slurm-slots": (
        {**SLURM, "SLURM_TASKS_PER_NODE": "2(x2),1", "SLURM_JOB_NODELIST": "n[1-3]"},
        Allocation(system="Slurm", nodes=3, ranks=5, slots={"n1": 2, "n2": 2, "n3": 1}),
    ),
    "slurm-nothing-said": (SLURM, Allocation(system="Slurm", nodes=3, ranks=3)),
    "pbs": (
        {"PBS_NODEFILE": "nodes"},
        Allocation(system="PBS", nodes=2, ranks=4, slots={"n1": 2, "n2": 2}),
    ),
    "lsf": (
        {"LSB_MCPU_HOSTS": "a 20 b 4"},
        Allocation(system="LSF", nodes=2, ranks=24, hosts="a:20,b:4"),
    ),
    "lsf-named-again": (
        {"LSB_MCPU_HOSTS": "a 2 b 4 a 1 c 0"},
        Allocation(system="LSF", nodes=2, ranks=7, hosts="a:3,b:4"),
    ),
    "lsf-empty": ({"LSB_MCPU_HOSTS": ""}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_an_allocation_is_read(case: str) -> None:
    environment, expected = CASES[case]
    assert allocation(environment, {"nodes": NODEFILE}.__getitem__) == expected


def test_an_empty_node_file_is_no_allocation() -> None:
    assert allocation({"PBS_NODEFILE": "nodes"}, lambda path: "\n") is None


def test_a_step_of_slurm_outlives_a_node_and_the_user_has_the_last_word() -> None:
    assert launcher_settings({}) == {}
    assert launcher_settings(SLURM) == {"SLURM_NO_KILL": "set", "SLURM_OVERLAP": "1"}
    assert "SLURM_NO_KILL" not in launcher_settings({**SLURM, "SLURM_NO_KILL": "no"})


def test_the_daemons_of_a_job_that_exports_nothing_get_the_variables_of_the_ranks() -> None:
    """Without PATH and the like none starts."""
    for exported in ("NONE", "HOME,USER"):
        settings = launcher_settings({**SLURM, "SLURM_EXPORT_ENV": exported})
        assert settings["SLURM_EXPORT_ENV"] == "ALL"
    assert "SLURM_EXPORT_ENV" not in launcher_settings(SLURM)


def test_a_job_whose_hosts_a_file_names_tells_open_mpi_its_slots() -> None:
    """Slurm 23.11 sets no SLURM_TASKS_PER_NODE there, and srun would place daemons by the file."""
    by_file = {"SLURM_DISTRIBUTION": "arbitrary", "SLURM_JOB_CPUS_PER_NODE": "2,1"}
    settings = launcher_settings({**SLURM, **by_file})
    assert (settings["SLURM_TASKS_PER_NODE"], settings["SLURM_DISTRIBUTION"]) == ("2,1", "block")
    given = launcher_settings({**SLURM, **by_file, "SLURM_TASKS_PER_NODE": "1(x2)"})
    assert "SLURM_TASKS_PER_NODE" not in given
    assert "SLURM_DISTRIBUTION" not in launcher_settings({**SLURM, "SLURM_DISTRIBUTION": "cyclic"})
