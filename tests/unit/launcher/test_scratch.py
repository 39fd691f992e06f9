"""Temporary directories of runs whose launchers were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from matex.launcher.scratch import MARK, scratch_directory

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
from matex.launcher.scratch import scratch_directory
with scratch_directory() as path:
    print(path, flush=True)
    input()
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_next_run_removes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "matex-notes").mkdir()  # a user's own
    living, kept = holder(tmp_path)
    killed, left = holder(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=patience(60))
    rank = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, "TMPDIR": str(left)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert rank.stdout is not None
    rank.stdout.readline()
    with scratch_directory() as own:
        assert (own / MARK).is_file()
        assert left.is_dir()  # a rank has outlived its launcher
    rank.communicate("\n", timeout=patience(60))
    with scratch_directory():
        assert not left.exists()
        assert kept.is_dir()
    living.communicate("\n", timeout=patience(60))
    assert [path.name for path in tmp_path.iterdir()] == ["matex-notes"]
