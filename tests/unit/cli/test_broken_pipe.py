"""Commands whose reader goes before they have printed everything, as ``| head -1``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience

ROOT = Path(matex.__file__).parents[1]
SAMPLE = ["faults", "sample", "--mtbf", "1s", "--ranks", "4", "--hours", "0.01"]
# Where output is not buffered, argparse itself is quiet about what nobody reads.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}

# What breaks is a pipe of the command's own, which somebody reads no more.
OTHER = """
import os
import matex.cli.faults
def act(arguments):
    ours, theirs = os.pipe()
    os.close(ours)
    os.write(theirs, b"x")
matex.cli.faults._run = act
matex.cli.main({words})
"""


def ended(*words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=ENVIRONMENT,
        stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=patience(30), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["doctor"], SAMPLE, ["--version"]])
def test_a_command_ends_quietly_when_nobody_reads_on(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = ended("-m", "matex", *words, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 128 + signal.SIGPIPE
    assert "Error" not in done.stderr  # TensorFlow has lines of its own


def test_another_broken_pipe_is_an_error() -> None:
    done = ended("-c", OTHER.format(words=SAMPLE), stdout=subprocess.PIPE)
    assert done.returncode == 1
    assert "BrokenPipeError" in done.stderr
