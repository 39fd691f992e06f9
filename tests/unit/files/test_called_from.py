"""The place in the script from which a function was called, whoever runs the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matex

SCRIPT = """
from matex.files.called_from import called_from

def deeper(times):
    return deeper(times - 1) if times else called_from()

print(deeper(9))
print(called_from())
"""

OUTSIDE = """
import sys
from matex.process.program import run_program

def outside(times):
    outside(times - 1) if times else run_program(sys.argv[1], [])

outside(int(sys.argv[2]))
"""


def test_the_lines_are_those_of_the_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = Path(matex.__file__).parents[1]
    one, other = (
        subprocess.run(
            [sys.executable, "-c", OUTSIDE, script, depth],
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for depth in ("0", "5")
    )  # fmt: skip
    assert one == other
    assert {line.partition(":")[0] for line in one} == {str(script)}
    assert one[-2:] == [f"{script}:7", f"{script}:8"]  # the last line is alone
