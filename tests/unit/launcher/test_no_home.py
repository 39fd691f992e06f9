"""Ranks and helpers that start where HOME is not set, without which Open MPI starts nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience
from matex.cli.doctor_actions import survival
from matex.launcher.mpiexec import find_mpiexec

ROOT = Path(matex.__file__).parents[1]


def test_ranks_start_without_a_home(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("print('begun')\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "matex", "run", "-n", "1", "fit.py"],
        cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "begun" in done.stdout


def test_the_trial_of_ulfm_wants_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    assert survival(find_mpiexec()).value.startswith("works")
