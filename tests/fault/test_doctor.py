"""``matex doctor`` kills a helper rank to see whether deaths are survived here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from matex.cli.doctor_actions import Finding, survival
from matex.launcher.mpiexec import Mpiexec, find_mpiexec
from tests.train.runs import execute


def test_a_helper_is_killed_and_the_others_go_on() -> None:
    assert survival(find_mpiexec()) == Finding(
        "ULFM", "works: a helper rank was killed, the others went on"
    )


def test_without_ulfm_it_says_what_that_means(tmp_path: Path) -> None:
    """An mpiexec that drops the option stands for an MPI that has no ULFM."""
    wrapper = tmp_path / "mpiexec"
    wrapper.write_text(f'#!/bin/sh\nshift 2\nexec {find_mpiexec().path} "$@"\n')
    wrapper.chmod(0o755)
    found = survival(Mpiexec(str(wrapper)))
    assert found.value.startswith("does not work")
    assert "--checkpoint" in found.advice
    assert not found.fatal


@pytest.mark.parametrize("path", ["", None], ids=["no-path", "usual"])
def test_the_table_names_everything_once(path: str | None, tmp_path: Path) -> None:
    environment = {"MATEX_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    environment["PATH"] = os.environ["PATH"] if path is None else path
    command = [sys.executable, "-m", "matex", "doctor"]
    done = execute(command, directory=tmp_path, **environment)
    names = [line[2:].split("  ")[0].strip() for line in done.stdout.splitlines() if line[2] != " "]
    assert names == [
        "python", "numpy", "h5py", "mpi4py", "tensorflow", "keras", "mpiexec", "MPI", "ULFM",
        "cores", "instructions", "shared memory", "HDF5 locking", "exchange",
    ]  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert ("- exchange       host (no C++ compiler was found)" in done.stdout) == (path == "")
