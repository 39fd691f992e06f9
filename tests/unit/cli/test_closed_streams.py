"""Commands whose standard streams are closed, as by ``>&-`` in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import matex
from ci.patience import patience

ROOT = Path(matex.__file__).parents[1]
SAMPLE = ["faults", "sample", "--mtbf", "1s", "--ranks", "4", "--hours", "0.01"]

# A file that is opened after the command has begun gets none of the numbers 0, 1, 2.
TAKEN = """
import os, sys
import matex.cli
matex.cli.main({words})
assert os.open(os.devnull, os.O_RDONLY) > 2
for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
    assert stream is not None and os.get_inheritable(number), number
"""


def ended(closed: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of which the shell closes these streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=patience(30), check=False,
    )  # fmt: skip


def test_a_command_prints_into_a_closed_output(tmp_path: Path) -> None:
    done = ended(">&-", "-m", "matex", *SAMPLE, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-", "<&- 2>&-"])
def test_no_other_file_gets_the_number_of_a_closed_stream(closed: str, tmp_path: Path) -> None:
    done = ended(closed, "-c", TAKEN.format(words=SAMPLE), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_ranks_start_from_a_command_with_a_closed_output(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("import sys\nprint('begun')\nsys.exit(3)\n")
    done = ended(
        ">&-", "-m", "matex", "run", "-n", "1", "--report", "report", "fit.py", folder=tmp_path
    )
    assert "Traceback" not in done.stderr
    assert "begun" in (tmp_path / "report" / "rank-0000.log").read_text().splitlines()


def test_one_rank_with_a_closed_output(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("import sys\nprint('begun')\nprint('told', file=sys.stderr)\n")
    done = ended(">&-", "-m", "matex", "fit.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "told" in done.stderr and "Traceback" not in done.stderr
