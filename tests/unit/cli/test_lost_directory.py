"""Commands in a working directory that has been removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience

ROOT = Path(matex.__file__).parents[1]


def ended(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a directory that is removed before it begins."""
    return subprocess.run(
        ["sh", "-c", 'mkdir d && cd d && rmdir ../d && exec "$@"', "sh", sys.executable, "-m",
         "matex", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["top", "--once"],
        ["run", "-n", "2", "--report", "out", "{folder}/fit.py"],
        ["run", "-n", "2", "{folder}/fit.py"],
    ],
)
def test_a_command_says_that_its_directory_is_gone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("print('this script must not run')\n")
    done = ended(*(word.format(folder=tmp_path) for word in words), folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"matex {words[0]}: the directory in which the command runs ")
    assert "does not exist any more; change to another" in line


def test_help_needs_no_directory(tmp_path: Path) -> None:
    done = ended("--version", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
